#!/usr/bin/env bash
# Tries each way to install on a clean system: puts what deploy/release.sh makes into an empty root, a new Debian and an empty image, and uses
# it there. Needs root. Installs Debian's debootstrap, rpm, containerd, runc and what tests/real/run.sh needs if they are missing.
#
#   tests/install/run.sh [DIST]      uses the release in DIST; without it, makes one from a debug program that is linked statically
#
# `KUBECTL=/path/to/kubectl` runs the plugin with that kubectl. Not tried: krew's own client, cargo-binstall, distributions other than
# Debian (the .rpm is installed into a Debian).
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "run as root: it makes roots of systems" >&2; exit 77; }
step() { printf -- '-- %s (%ss)\n' "$*" "$SECONDS"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
has() { grep -qF -- "$2" <<<"$1" || fail "no $2 in: $1"; }

missing=()
for tool in debootstrap rpm python3 openssl ip/iproute2; do command -v "${tool%/*}" >/dev/null || missing+=("${tool#*/}"); done
if [ "${#missing[@]}" -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
work=$(mktemp -d /tmp/kflow-install.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

dist=${1:-}
if [ -z "$dist" ]; then
  step "a static debug program, and what is made of it"
  cargo rustc --locked --bin kflow -- -C target-feature=+crt-static
  strip -o "$work/kflow" target/debug/kflow
  dist=$work/dist
  # Compressing 60 MiB well takes longer than everything else.
  DPKG_DEB_COMPRESSOR_TYPE=gzip deploy/release.sh --program "$work/kflow" "$dist" >/dev/null
fi
dist=$(cd "$dist" && pwd)
session=$PWD/fixtures/sessions/S2-stuck-early.kflow.zst
why=(why --ever -s S2.kflow.zst -o name)

step checksums
(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
[ "$(cd "$dist" && ls | grep -vc SHA256SUMS)" = "$(wc -l <"$dist/SHA256SUMS")" ] || fail "a file has no checksum"

step "the tarball, in an empty root"
root=$work/empty
mkdir "$root"
tar -C "$root" --strip-components=1 -xf "$dist"/kflow-[0-9]*.tar.gz
! ldd "$root/kflow" 2>/dev/null | grep -q '=>' || fail "the program is not static: $(ldd "$root/kflow")"
cp "$session" "$root/S2.kflow.zst"
has "$(chroot "$root" /kflow --version)" kflow
# The pods that hang in the recording, as a build on this system finds them.
want=$(env -C "$root" ./kflow "${why[@]}" || true)
[ -n "$want" ] || fail "nothing hangs in $session"
[ "$(chroot "$root" /kflow "${why[@]}" || true)" = "$want" ] || fail "in an empty root it says something else"
tests/install/names.py "$root"
if [ -e "$(echo "$dist"/kflow-fleet-*.tar.gz)" ]; then
  step "the program with tables"
  tar -C "$root" --strip-components=1 -xf "$dist"/kflow-fleet-*.tar.gz
  # Not in the empty root: DataFusion wants /dev/urandom.
  has "$("$root/kflow-fleet" fleet "$session" --question causes -o csv)" KF601
fi

step "the SBOM names what is linked"
python3 - "$dist" "$root/kflow" <<'PY'
import glob, json, re, sys
bom = json.load(open(glob.glob(sys.argv[1] + "/*.cdx.json")[0]))
has = {f"{c['name']}-{c['version']}" for c in bom["components"]}
# The places in the source code that a panic would name.
linked = set(re.findall(rb"/registry/src/[^/]+/([^/]+)/src/", open(sys.argv[2], "rb").read()))
linked = {l.decode() for l in linked}
assert len(linked) > 50, linked
assert linked <= has, linked - has
refs = {c["bom-ref"] for c in bom["components"]} | {bom["metadata"]["component"]["bom-ref"]}
assert {d for x in bom["dependencies"] for d in [x["ref"], *x["dependsOn"]]} <= refs
print(len(has), "components;", len(linked), "of them are named in the program")
PY

step "krew's manifest and its archive"
python3 - "$dist" <<'PY'
import glob, hashlib, re, sys, tarfile
text = open(sys.argv[1] + "/kflow.krew.yaml").read()
def one(key):
    found = re.findall(r"^\s*%s: \"?(.*?)\"?$" % key, text, re.M)
    assert len(found) == 1, (key, found)
    return found[0]
archive = sys.argv[1] + "/" + one("uri").rsplit("/", 1)[1]
assert hashlib.sha256(open(archive, "rb").read()).hexdigest() == one("sha256")
names = tarfile.open(archive).getnames()
froms = re.findall(r'- from: "(.*)"', text)
assert froms and all(f in names for f in froms), froms
# The rules of krew's validation (internal/index/validation): a version with v, a bin among the files, the name of the plugin's file.
assert re.fullmatch(r"v\d+\.\d+\.\d+", one("version")) and one("bin") in [f.rsplit("/", 1)[1] for f in froms]
assert len(one("shortDescription")) <= 50, one("shortDescription")
PY
# What krew makes from the manifest.
mkdir "$work/krew"
ln -s "$root/kflow" "$work/krew/kubectl-kflow"
has "$("$work/krew/kubectl-kflow" why --help)" "Usage: kubectl kflow why"
kubectl=${KUBECTL:-$(command -v kubectl || true)}
if [ -n "$kubectl" ]; then
  has "$(PATH="$work/krew:$PATH" "$kubectl" plugin list 2>&1)" kubectl-kflow
  [ "$(cd "$root" && PATH="$work/krew:$PATH" "$kubectl" kflow "${why[@]}" || true)" = "$want" ] || fail "kubectl kflow says something else"
else
  echo "LEFT OUT: no kubectl here"
fi

step "the chart, by Helm"
KFLOW=$root/kflow tests/install/chart.sh "$(echo "$dist"/kflow-[0-9]*.tgz)" || [ $? = 77 ]

step "a new Debian"
deb=$work/debian
# Uses this machine's package mirror, if that has bookworm.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' 'Component: main' | sort -u | sed q)
debootstrap --variant=minbase bookworm "$deb" ${mirror:+"$mirror"} >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail debootstrap; }
before=$(cd "$deb" && find . -xdev | sort)

step "the .deb: installed, used, upgraded, removed, purged"
cp "$dist"/kflow_*.deb "$deb/tmp/"
cp "$session" "$deb/tmp/S2.kflow.zst"
inside() { chroot "$deb" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
inside sh -c 'cd /tmp && apt-get install -y -qq --no-install-recommends ./kflow_*.deb' >"$work/log" 2>&1 || { cat "$work/log"; fail "apt install"; }
[ "$(inside sh -c 'cd /tmp && kflow why --ever -s S2.kflow.zst -o name' || true)" = "$want" ] || fail "the package says something else"
has "$(inside kubectl-kflow why --help)" "Usage: kubectl kflow why"
# On a busy machine kflow completes nothing rather than late.
for _ in $(seq 50); do
  said=$(inside kubectl_complete-kflow wh)
  [ -z "$said" ] || break
done
has "$said" why
has "$(inside bash -c '. /usr/share/bash-completion/completions/kflow && complete -p kflow')" kflow
for page in kflow kflow-why kflow-agent-run; do inside gzip -t "/usr/share/man/man1/$page.1.gz"; done
[ ! -e "$deb/etc/systemd/system/multi-user.target.wants/kflow-agent.service" ] || fail "it enables its service"
if command -v systemd-analyze >/dev/null; then
  mkdir "$work/units"
  sed 's|/usr/bin/kflow |/bin/true |' "$deb/usr/lib/systemd/system/kflow-agent.service" >"$work/units/kflow-agent.service"
  said=$(systemd-analyze verify --man=no "$work/units/kflow-agent.service" 2>&1 || true)
  ! grep kflow-agent <<<"$said" || fail "systemd does not like the unit"
fi
echo KFLOW_AGENT_ARGS=--no-api >"$deb/etc/default/kflow-agent"
mkdir -p "$deb/var/lib/kflow/spool"
inside sh -c 'dpkg -i /tmp/kflow_*.deb' >/dev/null
has "$(cat "$deb/etc/default/kflow-agent")" --no-api
inside dpkg -r kflow >/dev/null 2>&1
[ ! -e "$deb/usr/bin/kflow" ] && [ -e "$deb/etc/default/kflow-agent" ] && [ -e "$deb/var/lib/kflow" ] || fail "removing keeps what was set and kept, and no more"
inside dpkg -P kflow >/dev/null 2>&1
rm "$deb"/tmp/*
left=$(comm -13 <(echo "$before") <(cd "$deb" && find . -xdev | sort) | grep -v -e '^./var/log/' -e '^./var/lib/dpkg/' -e '^./var/lib/apt/' -e '^./var/cache/apt/' || true)
[ -z "$left" ] || fail "left after a purge: $left"

step "the .deb does not go while the kubelet's runtime hangs on it"
cp "$dist"/kflow_*.deb "$deb/tmp/"
inside sh -c 'dpkg -i /tmp/kflow_*.deb' >/dev/null
mkdir -p "$deb/usr/local/lib/kflow" "$deb/etc/systemd/system"
echo 'ExecStart=/usr/bin/kflow proxy' >"$deb/etc/systemd/system/kflow-proxy.service"
printf '#!/bin/sh\nexit 1\n' >"$deb/usr/local/lib/kflow/uninstall.sh"
chmod +x "$deb/usr/local/lib/kflow/uninstall.sh"
! inside dpkg -r kflow >/dev/null 2>&1 || fail "it went although the proxy could not be taken away"
[ -x "$deb/usr/bin/kflow" ] || fail "its program went although the proxy could not be taken away"
printf '#!/bin/sh\nrm /etc/systemd/system/kflow-proxy.service\n' >"$deb/usr/local/lib/kflow/uninstall.sh"
inside dpkg -P kflow >/dev/null 2>&1
[ ! -e "$deb/usr/bin/kflow" ] && [ ! -e "$deb/etc/systemd/system/kflow-proxy.service" ] || fail "the proxy's unit is left"
rm -rf "$deb/usr/local/lib/kflow"

step "the .rpm, into the same Debian: what it calls for there is /bin/sh, of which rpm knows nothing"
before=$(cd "$deb" && find . -xdev | sort)
rpm --root "$deb" --initdb
rpm --root "$deb" --force-debian -i --nodeps "$dist"/kflow-*.rpm
cp "$session" "$deb/tmp/S2.kflow.zst"
[ "$(inside sh -c 'cd /tmp && kflow why --ever -s S2.kflow.zst -o name' || true)" = "$want" ] || fail "the .rpm says something else"
rpm --root "$deb" -V --nodeps kflow || fail "rpm finds other files than it installed"
has "$(rpm --root "$deb" -qc kflow)" /etc/default/kflow-agent
has "$(rpm --root "$deb" -qd kflow)" /usr/share/man/man1/kflow.1.gz
rpm --root "$deb" --force-debian -e kflow
rm "$deb"/tmp/*.zst
left=$(comm -13 <(echo "$before") <(cd "$deb" && find . -xdev | sort) | grep -v -e '/\.rpmdb' -e '^./var/lib/rpm' || true)
[ -z "$left" ] || fail "left after rpm -e: $left"

step "the image, in containerd"
cat >"$work/image.sh" <<'IN'
set -euo pipefail
ctr="ctr -a $KFLOW_REAL/run/containerd.sock -n k8s.io"
$ctr images import --snapshotter native "$1"/kflow-*.oci.tar
name=$($ctr images ls -q | grep /kflow:)
for args in "--version" "causes KF601" "agent run --help"; do
  # shellcheck disable=SC2086
  $ctr run --rm --snapshotter native --read-only "$name" try /kflow $args | sed -n 1,4p
done
IN
has "$(tests/real/run.sh --exec bash "$work/image.sh" "$dist")" "Usage: kflow agent run"

if [ -z "${1:-}" ]; then
  step "cargo install"
  # The command of the README, with the profile that is built already, into a folder of its own.
  cargo install --quiet --locked --debug --no-track --path . --root "$work/cargo"
  has "$("$work/cargo/bin/kflow" --version)" kflow
fi
step "done"
