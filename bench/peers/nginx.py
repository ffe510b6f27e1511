"""One nginx over a folder, which answers all readers alike and each request some milliseconds late.

It answers GET and HEAD at http://127.0.0.1:PORT/FOLDER/FILE, ranges included. Loaders of S3 ask such paths of
a server that they are told, where FOLDER is the bucket.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

MODULES = pathlib.Path("/usr/lib/nginx/modules")
NEEDED = {"nginx": "nginx", "ngx_http_lua_module.so": "libnginx-mod-http-lua", "curl": "curl"}  # file: package
START_LIMIT_S = 20
# "master_process off": a single process, which ends with the one that starts it.
CONFIGURATION = """
load_module "{modules}/ndk_http_module.so";
load_module "{modules}/ngx_http_lua_module.so";
daemon off;
master_process off;
pid "{scratch}/pid";
error_log "{scratch}/error.log";
events {{ worker_connections 1024; }}
http {{
  log_format requests "$request_method $body_bytes_sent";
  access_log {log};
  default_type application/octet-stream;
  sendfile on;
  client_body_temp_path "{scratch}/client_body";
  proxy_temp_path "{scratch}/proxy";
  fastcgi_temp_path "{scratch}/fastcgi";
  uwsgi_temp_path "{scratch}/uwsgi";
  scgi_temp_path "{scratch}/scgi";
  root "{root}";
  access_by_lua_block {{ ngx.sleep({latency_s}) }}
  server {{ listen 127.0.0.1:{port}{tls}; }}
}}
"""


@dataclasses.dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        address: http://127.0.0.1:PORT, or https.
        pid: its only process.
        scratch: a folder for what a contender keeps during a run; it is removed when the server ends.
    """

    address: str
    pid: int
    scratch: str

    def json(self):
        return json.dumps(dataclasses.asdict(self))

    def cpu_seconds(self):
        return time.clock_gettime((~self.pid << 3) | 2)  # what clock_getcpuclockid(pid) returns

    def environment(self):
        """Variables by which loaders ask this server, and nothing else, for objects: boto3 wants keys to sign with, and
        looks for settings of the user and for proxies."""
        return {"S3_ENDPOINT_URL": self.address, "AWS_ACCESS_KEY_ID": "anybody", "AWS_SECRET_ACCESS_KEY": "anything",
                "AWS_DEFAULT_REGION": "us-east-1", "AWS_CONFIG_FILE": os.devnull,
                "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


def from_json(text):
    return Server(**json.loads(text)) if text else None


def program():
    """nginx, which lies where only root's PATH leads."""
    return shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))


def missing():
    """The Debian packages that the server and its readers lack, in words; empty if there are all."""
    found = {"nginx": program(), "ngx_http_lua_module.so": (MODULES / "ngx_http_lua_module.so").exists(),
             "curl": shutil.which("curl")}
    absent = [package for file, package in NEEDED.items() if not found[file]]
    return f"{', '.join(absent)}: not installed" if absent else ""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def start(root, scratch, latency_ms, log, certificate):
    """(process, port) of an nginx that answers."""
    tls = ' ssl; ssl_certificate "{}"; ssl_certificate_key "{}"'.format(*certificate) if certificate else ""
    configuration, errors = scratch / "nginx.conf", scratch / "error.log"
    for _ in range(5):  # another program may take the port first
        port = free_port()
        configuration.write_text(CONFIGURATION.format(modules=MODULES, scratch=scratch, root=root, port=port,
                                                      latency_s=latency_ms / 1000, tls=tls,
                                                      log=f'"{log}" requests' if log else "off"))
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", program(), "-c", configuration, "-p", scratch,
                                    "-e", errors], stdin=subprocess.DEVNULL)
        end = time.monotonic() + START_LIMIT_S
        while process.poll() is None and time.monotonic() < end:
            if answers(port):
                return process, port
            time.sleep(0.01)
        process.kill()
        process.wait()
    raise SystemExit(f"nginx does not start: {errors.read_text() if errors.exists() else 'it says nothing'}")


@contextlib.contextmanager
def serving(root, scratch, latency_ms, log=None, certificate=None):
    """A Server of the files below `root`. `scratch` is made, and removed at the end; so is what an earlier run left.
    `log` gets a line of method and bytes for each request. With `certificate`, which is a file and that of its key, the
    server speaks TLS."""
    root, scratch = root.resolve(), scratch.resolve()
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        process, port = start(root, scratch, latency_ms, log, certificate)
        try:
            yield Server(f"http{'s' if certificate else ''}://127.0.0.1:{port}", process.pid, str(scratch))
        finally:
            process.terminate()
            process.wait()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
