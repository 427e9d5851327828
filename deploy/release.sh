#!/usr/bin/env bash
# Makes everything that is released, in dist/ (or in DIST). It builds one static program and makes from it a tarball, a .deb, an .rpm, an
# OCI image, krew's manifest, an SBOM (CycloneDX) and SHA256SUMS. It also makes Helm's chart, and a tarball of a second program, which has the tables too.
#
#   deploy/release.sh [--program FILE [--node FILE] [--fleet FILE]] [--url URL] [DIST]
#
# --program  packs this program instead of building one; it needs the same features
# --node     packs this program, built with the feature `node` too, into the image; without it, the image has the program of --program
# --fleet    packs this program as the one with tables; without it, and with --program, no such program is packed
# --url      the folder on the web from which dist/'s files will be fetched: krew's manifest names it
#
# Needs cargo, python3, git, GNU tar and dpkg-deb. If rpmbuild is missing, root installs it from Debian's `rpm`; without root
# the .rpm is left out. The program is linked with a static glibc, so that it runs on every Linux of this processor, in an empty
# image too. Times in the packages are those of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

# The features of the released program. Tables would make it three times as large, and no node needs them.
features=cloud
program='' node='' fleet='' url='' dist=dist
while [ $# -gt 0 ]; do
  case $1 in
    --program) program=$2; shift 2 ;;
    --node) node=$2; shift 2 ;;
    --fleet) fleet=$2; shift 2 ;;
    --url) url=$2; shift 2 ;;
    -*) echo "deploy/release.sh [--program FILE [--node FILE] [--fleet FILE]] [--url URL] [DIST]" >&2; exit 2 ;;
    *) dist=$1; shift ;;
  esac
done

# Only the results of an earlier run are replaced: what its SHA256SUMS names, if nothing else is there.
before=()
if [ -n "$(ls -A "$dist" 2>/dev/null)" ]; then
  listed=" SHA256SUMS "
  while read -r _ file; do
    case ${file#\*} in
      */*) listed='' ; break ;;
      kflow-*.tar.gz | kflow_*.deb | kflow-*.rpm | kflow-*.oci.tar | kflow-*.tgz | kflow.krew.yaml | kflow-*.cdx.json) ;;
      *) listed='' ; break ;;
    esac
    listed+="${file#\*} "
    before+=("$dist/${file#\*}")
  done < <(cat "$dist/SHA256SUMS" 2>/dev/null)
  for file in $(ls -A "$dist"); do
    case $listed in *" $file "*) ;; *) listed='' ;; esac
  done
  if [ -z "$listed" ]; then
    echo "$dist has something that no release made: name another folder" >&2
    exit 2
  fi
fi

target=$(rustc -vV | sed -n 's/^host: //p')
case $target in
  x86_64-*-linux-gnu) deb=amd64 rpm=x86_64 ;;
  aarch64-*-linux-gnu) deb=arm64 rpm=aarch64 ;;
  *) echo "$target is not a target of kflow's releases: x86_64 or aarch64 with glibc" >&2; exit 2 ;;
esac
if [ -z "$program" ]; then
  triple=${target^^}
  # The flag is for the target only: the compiler loads procedural macros, so they cannot be static.
  declare -x "CARGO_TARGET_${triple//-/_}_RUSTFLAGS=-C target-feature=+crt-static"
  # Builds a program: its name, the profile, the features.
  built() {
    cargo build --profile "$2" --locked --features "$3" --target "$target"
    install -D "target/$target/$2/kflow" "target/released/$1"
  }
  built kflow release "$features"
  built kflow-node release "$features,node"
  built kflow-fleet fleet "$features,fleet"
  program=target/released/kflow node=target/released/kflow-node fleet=target/released/kflow-fleet
fi
version=$("$program" --version | awk '{print $2; exit}')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
url=${url:-https://releases.example/kflow/v$version}
name=kflow-$version-$target

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ${#before[@]} -gt 0 ]; then rm -f -- "${before[@]}" "$dist/SHA256SUMS"; fi
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
archive() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$@"; }

# What every package has. kflow is called by its plain name here, because completions contain the name by which it was called.
mkdir -p "$work/bin" "$work/man" "$work/completions"
install -m 755 "$program" "$work/bin/kflow"
kflow() (PATH="$work/bin:$PATH" && exec kflow "$@")
kflow man "$work/man"
kflow completions bash >"$work/completions/kflow.bash"
kflow completions zsh >"$work/completions/_kflow"
kflow completions fish >"$work/completions/kflow.fish"
kflow completions kubectl >"$work/completions/kubectl_complete-kflow"
chmod 755 "$work/completions/kubectl_complete-kflow"
share=(deploy/install.sh deploy/uninstall.sh deploy/kflow-proxy.service deploy/kflow-revert.service deploy/rbac.yaml deploy/grafana.json)

echo "tarball"
mkdir -p "$work/$name/deploy/agent"
install -m 755 "$work/bin/kflow" LICENSE README.md CHANGELOG.md "$work/$name"
chmod 644 "$work/$name"/{LICENSE,README.md,CHANGELOG.md}
cp -r "$work/man" "$work/completions" "$work/$name"
cp -p "${share[@]}" deploy/kflow-agent.service "$work/$name/deploy"
cp -p deploy/agent/*.yaml "$work/$name/deploy/agent"
chmod -R go=u-w "$work/$name"
archive -C "$work" -cf - "$name" | gzip -n9 >"$dist/$name.tar.gz"

if [ -n "$fleet" ]; then
  tables=kflow-fleet-$version-$target
  mkdir "$work/$tables"
  install -m 755 "$fleet" "$work/$tables/kflow-fleet"
  install -m 644 LICENSE "$work/$tables/LICENSE"
  archive -C "$work" -cf - "$tables" | gzip -n9 >"$dist/$tables.tar.gz"
fi

# Makes the file tree of a package. $1 is the distribution's folder for zsh functions.
tree() {
  local root=$work/tree
  rm -rf "$root"
  install -Dm 755 "$work/bin/kflow" "$root/usr/bin/kflow"
  ln -s kflow "$root/usr/bin/kubectl-kflow"
  install -Dm 755 -t "$root/usr/bin" "$work/completions/kubectl_complete-kflow"
  install -Dm 644 "$work/completions/kflow.bash" "$root/usr/share/bash-completion/completions/kflow"
  install -Dm 644 "$work/completions/_kflow" "$root/usr/share/zsh/$1/_kflow"
  install -Dm 644 -t "$root/usr/share/fish/vendor_completions.d" "$work/completions/kflow.fish"
  install -Dm 644 -t "$root/usr/share/man/man1" "$work"/man/*.1
  gzip -n9 "$root"/usr/share/man/man1/*.1
  install -Dm 644 -t "$root/usr/share/doc/kflow" README.md CHANGELOG.md
  gzip -n9 "$root/usr/share/doc/kflow/CHANGELOG.md"
  install -Dm 644 LICENSE "$root/usr/share/doc/kflow/copyright"
  install -Dm 644 -t "$root/usr/share/kflow" "${share[@]}"
  chmod 755 "$root"/usr/share/kflow/*.sh
  install -Dm 644 -t "$root/usr/share/kflow/agent" deploy/agent/*.yaml
  sed 's|/usr/local/bin/kflow|/usr/bin/kflow|' deploy/kflow-agent.service |
    install -Dm 644 /dev/stdin "$root/usr/lib/systemd/system/kflow-agent.service"
  install -Dm 644 deploy/package/kflow-agent.default "$root/etc/default/kflow-agent"
  find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
}
summary=$(sed -n 's/^description = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

echo ".deb"
tree vendor-completions
mkdir "$work/tree/DEBIAN"
cat >"$work/tree/DEBIAN/control" <<EOF
Package: kflow
Version: $version
Architecture: $deb
Maintainer: the authors of kflow <kflow@releases.example>
Section: admin
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$work/tree" | cut -f1)
Description: terminal tracer for Kubernetes nodes
 $summary.
EOF
echo /etc/default/kflow-agent >"$work/tree/DEBIAN/conffiles"
install -m 755 deploy/package/{postinst,prerm,postrm} "$work/tree/DEBIAN"
dpkg-deb --root-owner-group --build "$work/tree" "$dist/kflow_${version}_$deb.deb" >/dev/null

echo ".rpm"
if ! command -v rpmbuild >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends rpm
fi
if command -v rpmbuild >/dev/null; then
  tree site-functions
  rpmbuild --quiet -bb --target "$rpm-linux" --define "_topdir $work/rpm" --define "_rpmdir $dist" \
    --define "_rpmfilename kflow-$version-1.$rpm.rpm" --define "version $version" --define "tree $work/tree" \
    --define "summary $summary" --define "scripts $PWD/deploy/package" deploy/package/kflow.spec
else
  echo "LEFT OUT: no rpmbuild here, and not root on a Debian"
fi

echo "chart"
mkdir "$work/chart"
cp -r deploy/chart "$work/chart/kflow"
chmod -R u=rwX,go=rX "$work/chart"
archive -C "$work/chart" -cf - kflow | gzip -n9 >"$dist/kflow-$version.tgz"

echo "image, krew's manifest, SBOM"
python3 deploy/package/release.py "$dist" --program "$work/bin/kflow" --node "${node:-$program}" --version "$version" --target "$target" --url "$url" \
  --features "$features" --archive "$name.tar.gz"

(cd "$dist" && sha256sum -- *.* >SHA256SUMS && ls -l)
