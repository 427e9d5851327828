//! Percentiles by nearest rank as SQL functions, for measured durations, as in `kflow stats`.
//!
//! `p50(x)`, `p90(x)`, `p95(x)` and `p99(x)` return a number. `ranks(x)` returns the list of p50, p95 and p99, and
//! keeps the values once for all three. All values are kept until the end, 8 bytes each: the results are not estimates.

use std::mem::size_of;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, BooleanArray};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

/// The percentiles of [`ranks`](self), in thousandths.
pub(crate) const RANKS: [usize; 3] = [500, 950, 990];

/// Returns all of these functions.
pub(crate) fn functions() -> Vec<AggregateUDF> {
    [
        ("ranks", None),
        ("p50", Some(500)),
        ("p90", Some(900)),
        ("p95", Some(950)),
        ("p99", Some(990)),
    ]
    .into_iter()
    .map(|(name, permille)| {
        AggregateUDF::new_from_impl(Ranks {
            name,
            permille,
            signature: Signature::exact(vec![DataType::Int64], Volatility::Immutable),
        })
    })
    .collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ranks {
    name: &'static str,
    /// The single percentile to return; `None` for all of [`RANKS`].
    permille: Option<usize>,
    signature: Signature,
}

fn list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)))
}

impl AggregateUDFImpl for Ranks {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(match self.permille {
            Some(_) => DataType::Int64,
            None => list(),
        })
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[values]", args.name);
        Ok(vec![Arc::new(Field::new(name, list(), true))])
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.is_plain(&args)?;
        Ok(Box::new(One(self.values())))
    }
    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }
    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.is_plain(&args)?;
        Ok(Box::new(self.values()))
    }
}

impl Ranks {
    fn is_plain(&self, args: &AccumulatorArgs<'_>) -> Result<()> {
        if args.is_distinct {
            return exec_err!("{} takes no DISTINCT", self.name);
        }
        Ok(())
    }
    const fn values(&self) -> Values {
        Values {
            permille: self.permille,
            groups: Vec::new(),
        }
    }
}

/// The values of each group.
#[derive(Debug)]
struct Values {
    permille: Option<usize>,
    groups: Vec<Vec<i64>>,
}

/// Returns the smallest value that at least this share of the values does not exceed; `None` without values. Reorders
/// the values.
fn nearest_rank(values: &mut [i64], permille: usize) -> Option<i64> {
    let rank = (values.len() * permille).div_ceil(1000).max(1);
    if values.len() < rank {
        return None;
    }
    let (_, at, _) = values.select_nth_unstable(rank - 1);
    Some(*at)
}

impl Values {
    fn of(&mut self, group: usize) -> Option<&mut Vec<i64>> {
        self.groups.get_mut(group)
    }
    fn at_least(&mut self, groups: usize) {
        if self.groups.len() < groups {
            self.groups.resize_with(groups, Vec::new);
        }
    }
    fn told(&self, groups: Vec<Vec<i64>>) -> ArrayRef {
        if let Some(permille) = self.permille {
            let mut out = Int64Builder::with_capacity(groups.len());
            for mut values in groups {
                out.append_option(nearest_rank(&mut values, permille));
            }
            return Arc::new(out.finish());
        }
        let mut out = ListBuilder::new(Int64Builder::new());
        for mut values in groups {
            for permille in RANKS {
                out.values()
                    .append_option(nearest_rank(&mut values, permille));
            }
            out.append(true);
        }
        Arc::new(out.finish())
    }
    fn kept(groups: Vec<Vec<i64>>) -> ArrayRef {
        let all = groups.iter().map(Vec::len).sum();
        let values = Int64Builder::with_capacity(all);
        let mut out = ListBuilder::with_capacity(values, groups.len());
        for values in groups {
            out.values().append_slice(&values);
            out.append(true);
        }
        Arc::new(out.finish())
    }
    fn bytes(&self) -> usize {
        let all = self.groups.iter().map(Vec::capacity).sum::<usize>();
        all * size_of::<i64>() + self.groups.capacity() * size_of::<Vec<i64>>()
    }
    /// Adds the lists of an array, each to its group.
    fn merge(&mut self, lists: &ArrayRef, group: impl Fn(usize) -> usize) {
        let lists = lists.as_list::<i32>();
        for n in (0..lists.len()).filter(|n| lists.is_valid(*n)) {
            let values = lists.value(n);
            let values = values.as_primitive::<Int64Type>();
            if let Some(to) = self.of(group(n)) {
                to.extend_from_slice(values.values());
            }
        }
    }
}

fn first(values: &[ArrayRef]) -> Result<&ArrayRef> {
    let Some(one) = values.first() else {
        return exec_err!("percentiles take one argument");
    };
    Ok(one)
}

impl GroupsAccumulator for Values {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.at_least(total_num_groups);
        let values = first(values)?.as_primitive::<Int64Type>();
        let passes = |n: usize| opt_filter.is_none_or(|f| f.is_valid(n) && f.value(n));
        for (n, (value, group)) in values.values().iter().zip(group_indices).enumerate() {
            if values.is_valid(n)
                && passes(n)
                && let Some(to) = self.of(*group)
            {
                to.push(*value);
            }
        }
        Ok(())
    }
    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        _opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.at_least(total_num_groups);
        let group = |n: usize| group_indices.get(n).copied().unwrap_or(usize::MAX);
        self.merge(first(values)?, group);
        Ok(())
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        Ok(self.told(groups))
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Self::kept(emit_to.take_needed(&mut self.groups))])
    }
    fn size(&self) -> usize {
        self.bytes()
    }
}

/// The accumulator of a query without groups.
#[derive(Debug)]
struct One(Values);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let groups = vec![0; first(values)?.len()];
        self.0.update_batch(values, &groups, None, 1)
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.at_least(1);
        self.0.merge(first(states)?, |_| 0);
        Ok(())
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.at_least(1);
        let groups = std::mem::take(&mut self.0.groups);
        ScalarValue::try_from_array(&self.0.told(groups), 0)
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.at_least(1);
        let groups = std::mem::take(&mut self.0.groups);
        Ok(vec![ScalarValue::try_from_array(&Values::kept(groups), 0)?])
    }
    fn size(&self) -> usize {
        self.0.bytes()
    }
}
