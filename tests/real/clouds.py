"""Tests recording into stand-ins for Google Cloud Storage and Azure, and reading from them (objects.py).

  clouds.py KFLOW google FAKE_GCS_SERVER
  clouds.py KFLOW azure AZURITE

fake-gcs-server lists, reads and removes by Google's XML API as the cloud does, but accepts no upload by it: the relay turns a PUT into an
insert of the JSON API. fake-gcs-server checks no token, and Azurite has no access rights. So the relay in front of them does. It requires the
token that it issues as the machine's metadata server, or one that a service account's key signed. It refuses as the clouds do, in the words
of their documentation and of users' reports. Both listen on loopback, in a folder of their own.
"""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import random
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from email.utils import formatdate

from objects import DIR, Node, Relay, away, compacted, killed, ports, refused, repeated, run, say, small_spool, until

WHICH, PROGRAM = sys.argv[2], str(pathlib.Path(sys.argv[3]).resolve())


class Emulator:
    put = None

    def __init__(self):
        (self.port,) = ports(1)
        self.folder = DIR / "store"
        self.folder.mkdir()
        self.process = None

    def start(self, *args):
        with open(DIR / "emulator.log", "ab") as log:
            self.process = subprocess.Popen([PROGRAM, *args], cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until("a store that listens", self.listens)

    def listens(self):
        assert self.process.poll() is None, (DIR / "emulator.log").read_text()[-2000:]
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def down(self):
        # Not killed: Azurite writes what it has every few seconds only.
        self.process.terminate()
        self.process.wait(timeout=30)

    def gone(self):
        if self.process:
            self.down()


class Google(Emulator):
    url = "gs://kflow/pre/fix"
    token = "Kanarie0003q"
    secrets = [token]

    def up(self):
        at = f"127.0.0.1:{self.port}"
        # It wants to be asked by one name, which the relay has.
        public = f"127.0.0.1:{relay.port}"
        self.start(
            *["-backend", "filesystem", "-filesystem-root", str(self.folder), "-host", "127.0.0.1", "-port", str(self.port)],
            *["-scheme", "http", "-public-host", public, "-external-url", f"http://{public}"],
        )
        if not (self.folder / "kflow").exists():
            ask = urllib.request.Request(
                f"http://{at}/storage/v1/b", data=b'{"name":"kflow"}', headers={"Content-Type": "application/json"}
            )
            urllib.request.urlopen(ask, timeout=5).close()

    @staticmethod
    def env(port):
        at = f"127.0.0.1:{port}"
        return {"GOOGLE_BASE_URL": f"http://{at}", "GOOGLE_ALLOW_HTTP": "true", "GCE_METADATA_HOST": at}

    def gate(self, path, head):
        """Plays the metadata server, and requires its token in every other request."""
        if path.startswith("/computeMetadata/v1/instance/service-accounts/default/token"):
            assert head["Metadata-Flavor"] == "Google", head
            return 200, json.dumps({"access_token": self.token, "expires_in": 3600, "token_type": "Bearer"})
        # fake-gcs-server answers 500 for a bucket that does not exist.
        if path.startswith("/kflow-none"):
            return 404, "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist.</Message></Error>"
        if path.startswith("/kflow-shut"):
            return 403, (
                "<Error><Code>AccessDenied</Code><Message>Access denied.</Message><Details>lab@lab.iam.gserviceaccount.com does not "
                "have storage.objects.list access to the Google Cloud Storage bucket.</Details></Error>"
            )
        kind, _, token = head.get("Authorization", "").partition(" ")
        if kind == "Bearer" and (token == self.token or self.signed(token)):
            return None
        return 401, "<Error><Code>AuthenticationRequired</Code><Message>Authentication required.</Message></Error>"

    def put(self, path, body):
        """Forwards `PUT /BUCKET/OBJECT` as `POST /upload/…`."""
        bucket, _, name = path.strip("/").partition("/")
        url = f"http://127.0.0.1:{self.port}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method="POST"), timeout=30) as answer:
            made = json.load(answer)
        return 200, [("ETag", made["etag"]), ("x-goog-generation", made["generation"])], b""

    def key_file(self):
        """Returns the path of a service account's key file, as the console makes it; None without openssl."""
        if not shutil.which("openssl"):
            return None
        made = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, text=True, check=True).stdout
        account = {"type": "service_account", "private_key_id": "1", "client_email": "lab@lab.iam.gserviceaccount.com"}
        (DIR / "account.json").write_text(json.dumps(account | {"private_key": made}))
        (DIR / "account.pem").write_text(made)
        public = ["openssl", "rsa", "-pubout", "-in", str(DIR / "account.pem"), "-out", str(DIR / "account.pub")]
        subprocess.run(public, capture_output=True, check=True)
        self.secrets = [*self.secrets, made.splitlines()[3]]
        return str(DIR / "account.json")

    @staticmethod
    def signed(token):
        """Returns true if the token is a JWT for Google, not too old, and signed by the service account's key."""
        public, parts = DIR / "account.pub", token.split(".")
        if not public.exists() or len(parts) != 3:
            return False
        plain = lambda part: base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        says, signature = json.loads(plain(parts[1])), DIR / "signature"
        signature.write_bytes(plain(parts[2]))
        check = subprocess.run(
            ["openssl", "dgst", "-sha256", "-verify", str(public), "-signature", str(signature)],
            input=token.rpartition(".")[0].encode(),
            capture_output=True,
        )
        return check.returncode == 0 and says["iss"] == "lab@lab.iam.gserviceaccount.com" and says["exp"] > time.time()

    def refusals(self):
        yield "a token that is not known", "does not know these credentials", self.url, {"GOOGLE_BEARER_TOKEN": "Kanarie0002q"}
        yield "another bucket", "there is no such bucket", "gs://kflow-none/pre", {}
        yield "another's bucket", "roles/storage.objectUser", "gs://kflow-shut/pre", {}
        yield "another host", "host is not known", self.url, {"GOOGLE_BASE_URL": "http://store.invalid:8333"}
        yield "no TLS, and it is not allowed", "GOOGLE_ALLOW_HTTP", self.url, {"GOOGLE_ALLOW_HTTP": "no"}
        yield "an endpoint that is no URL", "GOOGLE_BASE_URL", self.url, {"GOOGLE_BASE_URL": "storage"}
        yield "a token with the line break of its file", "GOOGLE_BEARER_TOKEN", self.url, {"GOOGLE_BEARER_TOKEN": "a\n"}
        yield "no file of a key", "GOOGLE_APPLICATION_CREDENTIALS", self.url, {"GOOGLE_APPLICATION_CREDENTIALS": "/no/such/file"}
        nobody = {"GCE_METADATA_HOST": "metadata.google.internal", "GCE_METADATA_IP": "127.0.0.1:1"}
        yield "no credentials", "gcloud auth application-default login", self.url, nobody

    def credentials(self, node):
        """Tests each kind of credentials that gives access to the store."""
        node.check("as the machine's service account")
        file = self.key_file()
        if not file:
            return say("LEFT OUT: a service account's key (no openssl)")
        code, out, err = node.kflow("store", "ls", self.url, GOOGLE_APPLICATION_CREDENTIALS=file, GCE_METADATA_HOST="127.0.0.1:1")
        assert code == 0 and node.name in out, err
        say("by a service account's key")


class Azure(Emulator):
    url = "az://kflow/pre/fix"
    account = "kflowlab"

    def __init__(self):
        super().__init__()
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self.secrets = [self.key]

    def up(self):
        os.environ["AZURITE_ACCOUNTS"] = f"{self.account}:{self.key}"
        self.start("--blobPort", str(self.port), "--location", str(self.folder), "--silent", "--disableTelemetry")
        self.ask("PUT", "/kflow", "restype=container")

    def ask(self, method, path, query):
        """Sends a request that the account's key signs (Microsoft, "Authorize with Shared Key")."""
        head = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
        lines = "".join(f"{k}:{v}\n" for k, v in sorted(head.items()))
        names = "".join(f"\n{q.replace('=', ':')}" for q in sorted(query.split("&")))
        text = f"{method}\n\n\n\n\n\n\n\n\n\n\n\n{lines}/{self.account}/{self.account}{path}{names}"
        sign = base64.b64encode(hmac.digest(base64.b64decode(self.key), text.encode(), hashlib.sha256)).decode()
        head |= {"Authorization": f"SharedKey {self.account}:{sign}", "Content-Length": "0"}
        url = f"http://127.0.0.1:{self.port}/{self.account}{path}?{query}"
        try:
            urllib.request.urlopen(urllib.request.Request(url, method=method, headers=head), timeout=5).close()
        except urllib.error.HTTPError as e:
            # The container exists already.
            assert e.code == 409, (e.code, e.read())

    def env(self, port):
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_ENDPOINT": f"http://127.0.0.1:{port}/{self.account}",
            "AZURE_ALLOW_HTTP": "true",
        }

    def gate(self, path, head):
        # Azurite knows neither rights nor the time of a request.
        error = "<Error><Code>%s</Code><Message>%s</Message>%s</Error>"
        if path.startswith(f"/{self.account}/kflow-shut"):
            mismatch = "This request is not authorized to perform this operation using this permission."
            return 403, error % ("AuthorizationPermissionMismatch", mismatch, "")
        if path.startswith(f"/{self.account}/kflow-late"):
            detail = "<AuthenticationErrorDetail>Request date header too old: 'Fri, 04 Oct 2019 18:02:12 GMT'</AuthenticationErrorDetail>"
            return 403, error % ("AuthenticationFailed", "Server failed to authenticate the request.", detail)

    def refusals(self):
        other = base64.b64encode(b"Kanarie0002q").decode()
        yield "a wrong key", "does not know these credentials", self.url, {"AZURE_STORAGE_ACCOUNT_KEY": other}
        yield "another container", "there is no such container", "az://kflow-none/pre", {}
        yield "another's container", "Storage Blob Data Contributor", "az://kflow-shut/pre", {}
        yield "a clock that is wrong", "set this machine's clock", "az://kflow-late/pre", {}
        yield "another host", "host is not known", self.url, {"AZURE_ENDPOINT": "http://store.invalid:8333"}
        yield "no TLS, and it is not allowed", "AZURE_ALLOW_HTTP", self.url, {"AZURE_ALLOW_HTTP": "false"}
        yield "an endpoint that is no URL", "AZURE_ENDPOINT", self.url, {"AZURE_ENDPOINT": "azurite:10000"}
        yield "a key with the line break of its file", "AZURE_STORAGE_ACCOUNT_KEY", self.url, {"AZURE_STORAGE_ACCOUNT_KEY": "a\n"}
        yield "a key that is none", "AZURE_STORAGE_ACCOUNT_KEY", self.url, {"AZURE_STORAGE_ACCOUNT_KEY": "none!"}
        yield "no account", "AZURE_STORAGE_ACCOUNT_NAME", self.url, {"AZURE_STORAGE_ACCOUNT_NAME": ""}

    def credentials(self, node):
        node.check("by the account's key")
        until_then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        # Microsoft, "Create a service SAS", version 2020-12-06.
        fields = ["rl", "", until_then, f"/blob/{self.account}/kflow", "", "", "", "2020-12-06", "c", *[""] * 7]
        sign = base64.b64encode(hmac.digest(base64.b64decode(self.key), "\n".join(fields).encode(), hashlib.sha256)).decode()
        quote = urllib.parse.quote
        sas = f"sv=2020-12-06&sr=c&sp=rl&se={quote(until_then)}&sig={quote(sign, safe='')}"
        self.secrets = [*self.secrets, sign]
        variables = {"AZURE_STORAGE_ACCOUNT_KEY": None, "AZURE_STORAGE_SAS_TOKEN": sas}
        code, out, err = node.kflow("store", "ls", self.url, **variables)
        assert code == 0 and node.name in out, err
        say("by a shared access signature")


store = {"google": Google, "azure": Azure}[WHICH]()
relay = Relay(store)
relay.gate = store.gate
node = Node(relay, "made1")
chance = random.Random(7)


def checks():
    refused(node)
    away(node)
    store.credentials(node)
    killed(relay, node, chance, 2)
    killed(relay, Node(relay, "made4", agent=True), chance, 3)
    repeated(relay, node, chance)
    small_spool(relay)
    compacted(node)


run(store, relay, checks)
