use super::*;

mod steps;
mod words;

#[test]
fn the_embedded_catalogue_is_complete_and_correct() {
    let all = Catalogue::parse(DATA).unwrap_or_else(|e| panic!("{e}"));
    all.compile().unwrap_or_else(|e| panic!("{e}"));
    for u in all.by_reason.values() {
        let patterns = u.patterns.iter().map(|&(c, p)| &all.causes[c].patterns[p]);
        assert!(RegexSet::new(patterns).is_ok());
    }
    assert!(all.iter().count() >= 128);
    assert!(all.iter().map(|c| c.id).eq(CauseId::ALL.iter().copied()));
    for c in all.iter() {
        assert_eq!(all.cause(c.id).id, c.id);
        for (text, _) in c.all_steps() {
            assert!(!text.is_empty(), "{}", c.id);
        }
        assert_eq!(
            c.say.matches('[').count(),
            c.say.matches(']').count(),
            "{}",
            c.id
        );
    }
}

#[test]
fn an_id_that_occurs_twice_is_refused() {
    let twice = "[KF101]\ntitle='a'\n[KF101]\ntitle='b'\n";
    assert!(matches!(
        Catalogue::parse(twice),
        Err(CatalogueError::Form(_))
    ));
}

#[test]
fn a_cause_is_found_by_id_in_any_form() {
    let all = Catalogue::get();
    assert!(all.find("601").is_some() && all.find("kf601").is_some());
    assert!(all.find("KF702b").is_some() && all.find("KF000").is_none());
}

/// Findings of one cause are joined, each with its names, so that any of a sentence's names may be known together.
#[test]
fn a_sentence_joins_no_words_whichever_of_its_names_are_known() {
    let edge = |c: char| c.is_ascii_punctuation() && !"{}_".contains(c);
    let words = |text: &str, breaks: &[char]| -> Vec<String> {
        let breaks = |c: char| c == ' ' || breaks.contains(&c);
        let words = text.split(breaks).map(|w| w.trim_matches(edge).to_owned());
        words.filter(|w| !w.is_empty()).collect()
    };
    let mut wrong = Vec::new();
    for cause in Catalogue::get().iter() {
        let texts = cause.all_steps().map(|(text, _)| text);
        for template in texts.chain([&cause.say]) {
            let known = words(template, &['[', ']', '|']);
            let tails = template.split('{').skip(1);
            let mut keys: Vec<&str> = tails.map(|k| k.split('}').next().unwrap()).collect();
            keys.sort_unstable();
            keys.dedup();
            for chosen in 0..1_u32 << keys.len() {
                let mut names = Names::default();
                for (i, key) in keys.iter().enumerate() {
                    if chosen & (1 << i) != 0 {
                        // A name's value is its own placeholder, which is a word of the template.
                        names.set(key, &format!("{{{key}}}"));
                    }
                }
                let said = names.sentence(template).replace('?', "");
                let joined = words(&said, &[]);
                let joined = joined
                    .iter()
                    .find(|w| !known.contains(w) && w.contains(char::is_alphabetic));
                if let Some(word) = joined {
                    wrong.push(format!("{}: {word}: {said}", cause.id));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of a pod that only a message tells of, neither node nor container nor image may be known.
#[test]
fn a_sentence_ends_whichever_of_the_pods_own_names_is_missing() {
    let mut wrong = Vec::new();
    for cause in Catalogue::get().iter() {
        let tails = cause.say.split('{').skip(1);
        let keys: Vec<&str> = tails.map(|k| k.split('}').next().unwrap()).collect();
        for missing in ["node", "container", "image"] {
            let mut names = Names::default();
            for key in keys.iter().filter(|key| **key != missing) {
                names.set(key, key);
            }
            let said = names.sentence(&cause.say);
            let first = said.split([' ', ':', ',', '.']).next().unwrap_or_default();
            let begins = !first.starts_with(char::is_lowercase) || keys.contains(&first);
            let said = said.trim_end_matches('.');
            if said.is_empty() || said.ends_with(' ') || !begins {
                wrong.push(format!("{} without {missing}: {said}", cause.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
