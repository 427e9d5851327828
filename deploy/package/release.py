"""Makes the parts of a release that are JSON and YAML, for deploy/release.sh: an OCI image, krew's manifest, an SBOM.

Image: https://github.com/opencontainers/image-spec (image-layout.md, manifest.md, config.md), in one tar.
krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
SBOM: https://cyclonedx.org/docs/1.5/json/
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import uuid

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
WHEN = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def tar(files):
    """Returns a tar archive of name → (bytes, mode)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, (data, mode) in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), mode, EPOCH
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def image(program, package, arch, path):
    blobs = {}

    def put(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        blobs["blobs/sha256/" + digest] = (data, 0o644)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(data)}

    def put_json(kind, value):
        return put(kind, json.dumps(value, sort_keys=True).encode())

    version = package["version"]
    layer = tar({"kflow": (program, 0o755), "LICENSE": (open("LICENSE", "rb").read(), 0o644)})
    layer_at = put("layer.v1.tar+gzip", gzip.compress(layer, mtime=0))
    labels = {
        "org.opencontainers.image.title": "kflow",
        "org.opencontainers.image.description": package["description"],
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": package["license"],
        "org.opencontainers.image.created": WHEN,
    }
    config = {
        "created": WHEN,
        "architecture": arch,
        "os": "linux",
        "config": {"Entrypoint": ["/kflow"], "Env": ["PATH=/"], "WorkingDir": "/", "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": WHEN, "created_by": "deploy/release.sh"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": put_json("config.v1+json", config),
        "layers": [layer_at],
        "annotations": labels,
    }
    at = put_json("manifest.v1+json", manifest)
    at["platform"] = {"architecture": arch, "os": "linux"}
    # The name that containerd gives the image when it imports it.
    at["annotations"] = {
        "io.containerd.image.name": f"docker.io/library/kflow:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [at]}
    files = {
        "oci-layout": (b'{"imageLayoutVersion": "1.0.0"}', 0o644),
        "index.json": (json.dumps(index, sort_keys=True).encode(), 0o644),
        **dict(sorted(blobs.items())),
    }
    with open(path, "wb") as out:
        out.write(tar(files))


KREW = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: kflow
spec:
  version: v{version}
  shortDescription: Show which call a stuck pod waits on, and why
  description: |
    {description}.
    Live and in replay it shows each step of a pod as a timeline, and of a pod that hangs it says which call it is waiting on, and why.
  caveats: |
    Calls to the container runtime are seen where an agent is on the node (kubectl kflow agent install), or as root on the node.
    `kubectl kflow completions kubectl` prints the program that completes it.
  platforms:
    - selector:
        matchLabels:
          os: linux
          arch: {arch}
      uri: {url}/{archive}
      sha256: {sha256}
      files:
        - from: "{folder}/kflow"
          to: .
        - from: "{folder}/LICENSE"
          to: .
      bin: kflow
"""


def packages(target, features):
    """Returns the packages that are linked, and their dependencies. Only `cargo tree` knows which features, and so which packages, are on."""
    tree = ["cargo", "tree", "--locked", "-p", "kflow", "--features", features, "--target", target]
    tree += ["-e", "normal,no-proc-macro", "--prefix", "none", "-f", "{p}"]
    lines = subprocess.check_output(tree, text=True).splitlines()
    linked = {tuple(re.match(r"(\S+) v(\S+)", line).groups()) for line in lines}
    run = ["cargo", "metadata", "--locked", "--format-version", "1", "--features", features, "--filter-platform", target]
    meta = json.loads(subprocess.check_output(run))
    all_ = {p["id"]: p for p in meta["packages"] if (p["name"], p["version"]) in linked}
    edges = {}
    for node in meta["resolve"]["nodes"]:
        if node["id"] in all_:
            deps = (d for d in node["deps"] if any(k["kind"] is None for k in d["dep_kinds"]))
            edges[node["id"]] = sorted(d["pkg"] for d in deps if d["pkg"] in all_)
    return meta["resolve"]["root"], edges, all_


def purl(p):
    return f"pkg:cargo/{p['name']}@{p['version']}"


def checksums():
    lock = open("Cargo.lock", encoding="utf-8").read()
    found = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = .*\nchecksum = "(\w+)"', lock)
    return {(n, v): c for n, v, c in found}


def component(p, sums):
    it = {
        "type": "library",
        "bom-ref": purl(p),
        "name": p["name"],
        "version": p["version"],
        "purl": purl(p),
        "scope": "required",
    }
    if p.get("license"):
        # Cargo's old notation for OR.
        it["licenses"] = [{"expression": p["license"].replace("/", " OR ")}]
    if p.get("description"):
        it["description"] = " ".join(p["description"].split())
    if p.get("repository"):
        it["externalReferences"] = [{"type": "vcs", "url": p["repository"]}]
    if (p["name"], p["version"]) in sums:
        it["hashes"] = [{"alg": "SHA-256", "content": sums[p["name"], p["version"]]}]
    return it


def sbom(program, target, features, path):
    root, edges, all_ = packages(target, features)
    sums = checksums()
    parts = sorted((component(all_[i], sums) for i in edges if i != root), key=lambda c: c["bom-ref"])
    libc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    glibc = {
        "type": "library",
        "bom-ref": f"pkg:generic/glibc@{libc}",
        "name": "glibc",
        "version": libc,
        "purl": f"pkg:generic/glibc@{libc}",
        "scope": "required",
        "description": "linked statically, of the machine that built it",
        "licenses": [{"expression": "LGPL-2.1-or-later"}],
    }
    rustc = subprocess.check_output(["rustc", "--version"], text=True).split()[1]
    std = {
        "type": "library",
        "bom-ref": f"pkg:generic/rust-std@{rustc}",
        "name": "rust-std",
        "version": rustc,
        "purl": f"pkg:generic/rust-std@{rustc}",
        "scope": "required",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }
    me = component(all_[root], sums)
    me["type"] = "application"
    me["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(program).hexdigest()}]
    del me["scope"]
    depends = [{"ref": purl(all_[i]), "dependsOn": [purl(all_[d]) for d in ds]} for i, ds in edges.items()]
    own = next(d for d in depends if d["ref"] == me["bom-ref"])
    own["dependsOn"] += [glibc["bom-ref"], std["bom-ref"]]
    digest = me["hashes"][0]["content"]
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, "sha256:" + digest).urn,
        "version": 1,
        "metadata": {"timestamp": WHEN, "component": me},
        "components": parts + [glibc, std],
        "dependencies": sorted(depends, key=lambda d: d["ref"]),
    }
    with open(path, "w", encoding="utf-8") as out:
        json.dump(bom, out, indent=1)
        out.write("\n")
    return all_[root]


def main():
    args = argparse.ArgumentParser()
    args.add_argument("dist")
    for name in ("program", "node", "version", "target", "features", "url", "archive"):
        args.add_argument("--" + name, required=True)
    args = args.parse_args()
    program = open(args.program, "rb").read()
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[args.target.split("-")[0]]
    package = sbom(program, args.target, args.features, f"{args.dist}/kflow-{args.version}.cdx.json")
    if package["version"] != args.version:
        raise SystemExit(f"{args.program} is version {args.version}, and Cargo.toml has {package['version']}")
    image(open(args.node, "rb").read(), package, arch, f"{args.dist}/kflow-{args.version}-{arch}.oci.tar")
    archive = open(f"{args.dist}/{args.archive}", "rb").read()
    with open(f"{args.dist}/kflow.krew.yaml", "w", encoding="utf-8") as out:
        out.write(
            KREW.format(
                version=args.version,
                description=package["description"],
                arch=arch,
                url=args.url,
                archive=args.archive,
                folder=args.archive.removesuffix(".tar.gz"),
                sha256=hashlib.sha256(archive).hexdigest(),
            )
        )


main()
