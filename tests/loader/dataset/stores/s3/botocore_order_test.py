"""Compares where our credentials come from with Debian's botocore, for 300 environments from a fixed seed.

botocore_order_test.py FIND_CREDENTIALS

An environment has some of: keys in variables, a profile in either file with keys, a program, single sign-on or a role,
a web identity, a container's endpoint. What botocore takes and Isocost does not (single sign-on, roles) is refused.
"""

import http.server
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading

try:
    import botocore.exceptions
    import botocore.session
except ImportError:
    print("botocore_order_test: skipped, because this Python has no botocore (Debian: python3-botocore)")
    sys.exit(77)

CASES = 300
# How our names of sources begin, and botocore's method of each.
METHODS = {
    "the environment variable": "env",
    "error: AWS's profile": "refused",
    "the web identity": "assume-role-with-web-identity",
    "credential_process": "custom-process",
    "the container": "container-role",
    "error: no AWS credentials": "none",
}
ANSWER = json.dumps({"AccessKeyId": "AKcontainer", "SecretAccessKey": "x", "Token": "y",
                     "Expiration": "2099-01-01T00:00:00Z"}).encode()


class Container(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)


def section(generator, file, name):
    """Returns the lines of one profile in one file."""
    lines = []
    if generator.random() < 0.4:
        lines += [f"aws_access_key_id = AK{file}{name}", "aws_secret_access_key = x"]
    if generator.random() < 0.25:
        lines += ["credential_process = /bin/echo "
                  f"'{{\"Version\": 1, \"AccessKeyId\": \"AKprocess{name}\", \"SecretAccessKey\": \"x\"}}'"]
    if file == "config":
        if generator.random() < 0.15:
            lines += ["sso_start_url = https://x", "sso_region = us-east-1", "sso_account_id = 1", "sso_role_name = r"]
        if generator.random() < 0.15:
            lines += ["role_arn = arn:aws:iam::1:role/r", "source_profile = source"]
        elif generator.random() < 0.15:
            lines += ["role_arn = arn:aws:iam::1:role/r", "web_identity_token_file = /nonexistent/token"]
    return lines


def environment(generator, directory, container):
    variables = {"HOME": str(directory), "AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": "eu-west-1",
                 "PATH": os.environ["PATH"]}
    if generator.random() < 0.2:
        variables |= {"AWS_ACCESS_KEY_ID": "AKenvironment", "AWS_SECRET_ACCESS_KEY": "x"}
    if generator.random() < 0.2:
        variables |= {"AWS_WEB_IDENTITY_TOKEN_FILE": "/nonexistent/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/w"}
    if generator.random() < 0.3:
        variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = container
    if generator.random() < 0.5:
        variables["AWS_PROFILE"] = "a"
    (directory / ".aws").mkdir(parents=True)
    for file, prefix in (("credentials", ""), ("config", "profile ")):
        text = "[default]\n" + "\n".join(section(generator, file, "default"))
        text += f"\n[{prefix}a]\n" + "\n".join(section(generator, file, "a"))
        text += f"\n[{prefix}source]\naws_access_key_id = AKsource\naws_secret_access_key = x\n"
        (directory / ".aws" / file).write_text(text)
    return variables


def of_botocore(variables):
    """Returns the method and, for fixed keys, the access key ID."""
    os.environ.clear()
    os.environ.update(variables)
    try:
        credentials = botocore.session.Session().get_credentials()
    except botocore.exceptions.BotoCoreError as error:
        return f"error: {error}", ""
    if credentials is None:
        return "none", ""
    if credentials.method in ("sso", "assume-role"):
        return "refused", ""
    if credentials.method in ("assume-role-with-web-identity", "container-role"):
        return credentials.method, ""
    return credentials.method, credentials.access_key


def of_ours(text):
    name, _, key = text.partition("\n")
    for beginning, method in METHODS.items():
        if name.startswith(beginning):
            return method, key
    if name.endswith("/.aws/credentials"):
        return "shared-credentials-file", key
    return ("config-file", key) if name.endswith("/.aws/config") else (name, key)


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Container)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    generator = random.Random(7)
    with tempfile.TemporaryDirectory() as root:
        cases = [environment(generator, pathlib.Path(root) / str(number), f"http://127.0.0.1:{server.server_address[1]}/")
                 for number in range(CASES)]
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        output = subprocess.run(sys.argv[1:2], input=lines, capture_output=True, text=True, check=True).stdout
        ours = [of_ours(json.loads(line)) for line in output.splitlines()]
        expected = [of_botocore(case) for case in cases]
        different = [number for number in range(CASES) if ours[number] != expected[number]]
        for number in different[:5]:
            print(cases[number], "ours", ours[number], "botocore", expected[number], sep="\n  ")
            for file in ("credentials", "config"):
                print((pathlib.Path(root) / str(number) / ".aws" / file).read_text())
    kinds = {method for method, _ in expected}
    if different or len(ours) != CASES:
        sys.exit(f"{len(different)} of {CASES} sources differ from botocore's")
    if len(kinds) != 8:
        sys.exit(f"the environments lead to these sources alone: {sorted(kinds)}")
    print(f"{CASES} sources are those of botocore: {', '.join(sorted(kinds))}")


if __name__ == "__main__":
    main()
