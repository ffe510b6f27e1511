"""Compares our signatures with those of Debian's botocore, for 1,000 hostile requests from a fixed seed.

botocore_signature_test.py SIGN_REQUESTS

botocore encodes and signs each request by itself. Equal are the address that is sent, the canonical request and the
Authorization header.
"""

import datetime
import json
import random
import subprocess
import sys

try:
    from botocore.auth import S3SigV4Auth, SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.compat import urlsplit
    from botocore.credentials import Credentials
    from botocore.utils import percent_encode
except ImportError:
    print("botocore_signature_test: skipped, because this Python has no botocore (Debian: python3-botocore)")
    sys.exit(77)

CASES = 1000
PIECES = ["a", "Z", "0", " ", "  ", "+", "%", "%20", "%2F", "/", "//", ".", "..", "/./", "/../", "~", "=", "&", ";",
          ":", "@", "!", "*", "'", "(", ")", "\"", "<", ">", "?", "#", "[", "]", "{", "}", "|", "\\", "^", "`", "$",
          ",", "-", "_", "\t", "\u00e4", "e\u0301", "\u65e5\u672c", "\U0001f600", "\u200d", "\u00df", "key",
          "0000.tar", "\x7f"]
# Python's split() takes more for white space than AWS does, so that values have no other white space than this.
HEADER_PIECES = ["a", "B", " ", "   ", "\t", "=", ",", ";", "\"x\"", "'", "\u00e4", "\u65e5", "bytes=0-9", "%20", "+"]
HEADER_NAMES = ["Range", "If-Match", "x-amz-request-payer", "X-Amz-Meta-A", "x-amz-meta-b", "Content-Type", "Expect",
                "User-Agent", "X-Amzn-Trace-Id", "Cache-Control", "x-amz-meta-a-b", "x-amz-meta-a_b"]


def text_of(pieces, generator, most):
    return "".join(generator.choice(pieces) for _ in range(generator.randint(0, most)))


def request_case(generator):
    key = text_of(PIECES, generator, 8)
    query = [[text_of(PIECES, generator, 3) or "x", text_of(PIECES, generator, 4)]
             for _ in range(generator.randint(0, 4))]
    if query and generator.random() < 0.3:
        query.append([query[0][0], text_of(PIECES, generator, 3)])
    headers = [[generator.choice(HEADER_NAMES), text_of(HEADER_PIECES, generator, 5)]
               for _ in range(generator.randint(0, 4))]
    service = generator.choice(["s3", "s3", "s3", "sts", "execute-api"])
    return {
        "method": generator.choice(["GET", "HEAD", "PUT", "POST"]),
        "host": generator.choice(["bucket.s3.eu-west-1.amazonaws.com", "localhost:5000", "[::1]:9000",
                                  "a.b-c.example"]),
        "path": key.split("/"),
        "query": query,
        "headers": headers,
        "body": generator.choice(["", "", "", "Action=X", "\u00e4" * 5]),
        "region": generator.choice(["us-east-1", "eu-central-1", "cn-north-1", "garage"]),
        "service": service,
        "time_s": generator.randint(0, 4_000_000_000),
        "access_key_id": "AKID" + str(generator.randint(0, 10**9)),
        "secret_access_key": text_of(["a", "/", "+", "Q", "9", "="], generator, 40),
        "session_token": generator.choice(["", "", text_of(["t", "/", "+", "="], generator, 30)]),
    }


def reference(case):
    """Returns the target, canonical request and Authorization header of botocore."""
    scheme = "http" if case["host"].startswith(("localhost", "[")) else "https"
    path = "/" + "/".join(percent_encode(segment, safe="~") for segment in case["path"])
    request = AWSRequest(case["method"], f"{scheme}://{case['host']}{path}", data=case["body"].encode(),
                         params=[tuple(pair) for pair in case["query"]])
    for name, value in case["headers"]:
        request.headers.add_header(name, value)
    credentials = Credentials(case["access_key_id"], case["secret_access_key"], case["session_token"] or None)
    kind = S3SigV4Auth if case["service"] == "s3" else SigV4Auth
    auth = kind(credentials, case["service"], case["region"])
    time = datetime.datetime.fromtimestamp(case["time_s"], datetime.timezone.utc)
    request.context["timestamp"] = time.strftime("%Y%m%dT%H%M%SZ")
    auth._modify_request_before_signing(request)  # noqa: SLF001
    canonical = auth.canonical_request(request)
    to_sign = auth.string_to_sign(request, canonical)
    auth._inject_signature_to_request(request, auth.signature(to_sign, request))  # noqa: SLF001
    query = auth.canonical_query_string(request)
    target = urlsplit(request.url).path + ("?" + query if query else "")
    return {"target": target, "canonical_request": canonical, "authorization": request.headers["Authorization"]}


def main():
    generator = random.Random(20130524)
    cases = [request_case(generator) for _ in range(CASES)]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    output = subprocess.run(sys.argv[1:2], input=lines, capture_output=True, text=True, check=True).stdout
    ours = [json.loads(line) for line in output.splitlines()]
    if len(ours) != CASES:
        sys.exit(f"{len(ours)} signatures of {CASES} requests")
    different = 0
    for case, signed in zip(cases, ours):
        expected = reference(case)
        if signed == expected:
            continue
        different += 1
        if different <= 5:
            print(json.dumps({"case": case, "ours": signed, "botocore": expected}, indent=1))
    if different:
        sys.exit(f"{different} of {CASES} signatures differ from botocore's")
    print(f"{CASES} signatures are equal to botocore's")


if __name__ == "__main__":
    main()
