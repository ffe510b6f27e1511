"""Reads buckets of moto's server, which checks signatures and rights, and compares them with what boto3 put there.

moto_test.py S3_COMMANDS

Exits with 77 if this Python has no moto (pip install 'moto[server]').
"""

import base64
import datetime
import http.client
import json
import logging
import os
import random
import re
import subprocess
import sys
import unittest
import urllib.parse
import urllib.request

COMMANDS = sys.argv.pop(1)
# Keys that an address, a signature or a listing may get wrong.
HOSTILE_KEYS = ["h/a b+c%.tar", "h/\u00fc/\u65e5\u672c.tar", "h/tilde~=&?#;:@!$,.tar", "h/100%25%2F",
                "h/\U0001f600 '\"(*)", "h/<a>&amp;", "h/back\\slash|^`{}[]", "h/+", "h/ ", "h/x/../../y", "h/./z",
                "h/..."]

try:
    import boto3
    import moto.server
except ImportError:
    if __name__ == "__main__":
        print("moto_test: skipped, because this Python has no moto (pip install 'moto[server]')")
        sys.exit(77)


class MotoTest(unittest.TestCase):
    """A bucket of 2,500 objects, one of hostile keys, and a user who may read them."""

    @classmethod
    def setUpClass(cls):
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        cls.server = moto.server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        cls.server.start()
        host, port = cls.server.get_host_and_port()
        cls.endpoint = f"http://{host}:{port}"
        arguments = {"endpoint_url": cls.endpoint, "region_name": "us-east-1", "aws_access_key_id": "x",
                     "aws_secret_access_key": "x"}
        s3 = boto3.client("s3", **arguments)
        iam = boto3.client("iam", **arguments)
        s3.create_bucket(Bucket="shards")
        s3.create_bucket(Bucket="my.dotted.bucket")
        s3.put_object(Bucket="my.dotted.bucket", Key="a", Body=b"dotted")
        cls.data = random.Random(1).randbytes(300_000)
        cls.objects = {f"many/{number:04}.tar": str(number).encode() for number in range(2500)}
        cls.objects |= {key: key.encode() for key in HOSTILE_KEYS}
        cls.objects |= {"big.tar": cls.data, "empty": b"", "many/below/1.tar": b"1", "many/folder/": b""}
        cls.put_all(host, port)
        cls.head = s3.head_object(Bucket="shards", Key="big.tar")
        cls.keys = {name: cls.user(iam, name, actions)
                    for name, actions in (("reader", ["s3:GetObject", "s3:ListBucket"]), ("getter", ["s3:GetObject"]),
                                          ("stranger", ["ec2:DescribeInstances"]))}
        # From now on signatures and rights are checked.
        request = urllib.request.Request(f"{cls.endpoint}/moto-api/reset-auth", data=b"0", method="POST",
                                         headers={"Content-Type": "text/plain"})
        urllib.request.urlopen(request, timeout=30).close()

    @classmethod
    def put_all(cls, host, port):
        # Without boto3, which takes several times as long.
        connection = http.client.HTTPConnection(host, port, timeout=60)
        for key, body in cls.objects.items():
            connection.request("PUT", "/shards/" + urllib.parse.quote(key), body)
            response = connection.getresponse()
            if response.status != 200:
                raise RuntimeError(f"PUT {key}: {response.status} {response.read().decode()}")
            response.read()
        connection.close()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    @staticmethod
    def user(iam, name, actions):
        iam.create_user(UserName=name)
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
        iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=json.dumps(policy))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    def run_commands(self, commands, user="reader", bucket="shards", **variables):
        """Returns a dictionary for each command, with "value", or "code" and "error"."""
        environment = {"PATH": os.environ["PATH"], "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1",
                       "AWS_EC2_METADATA_DISABLED": "true"} | self.keys.get(user, {}) | variables
        lines = "".join(json.dumps(command) + "\n" for command in commands)
        result = subprocess.run([COMMANDS, bucket], input=lines, env=environment, capture_output=True, text=True,
                                timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        for keys in self.keys.values():
            self.assertNotIn(keys["AWS_SECRET_ACCESS_KEY"], result.stdout + result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def problem(self, commands, **arguments):
        """Returns the code and the message of the errors, which are the same for all commands."""
        errors = [(result.get("code"), re.sub("; request [^)]*", "", result.get("error", "")))
                  for result in self.run_commands(commands, **arguments)]
        self.assertEqual(len(set(errors)), 1, errors)
        return errors[0]

    def test_a_stamp_is_that_of_the_object(self):
        big, empty = self.run_commands([["stamp", "big.tar"], ["stamp", "empty"]])
        modified = int(self.head["LastModified"].replace(tzinfo=datetime.timezone.utc).timestamp())
        self.assertEqual(big["value"], {"bytes": 300_000, "etag": self.head["ETag"], "modified_s": modified})
        self.assertEqual(empty["value"]["bytes"], 0)

    def test_ranges_are_those_of_the_object(self):
        ranges = [(0, 1), (0, 300_000), (299_999, 300_000), (12_345, 67_890), (5, 5)]
        results = self.run_commands([["read", "big.tar", begin, end] for begin, end in ranges])
        for (begin, end), result in zip(ranges, results):
            self.assertEqual(base64.b64decode(result["value"]), self.data[begin:end])
        beyond, = self.run_commands([["read", "big.tar", 0, 300_001]])
        self.assertEqual(beyond["code"], "invalid_argument")

    def test_hostile_keys_are_read_and_listed(self):
        results = self.run_commands([["read", key, 0, len(key.encode())] for key in HOSTILE_KEYS])
        for key, result in zip(HOSTILE_KEYS, results):
            with self.subTest(key=key):
                self.assertEqual(base64.b64decode(result.get("value", "")), key.encode(), result)
        listed, = self.run_commands([["list", "h/", True]])
        self.assertEqual([key for key, _ in listed["value"]], sorted(HOSTILE_KEYS, key=str.encode))

    def test_listings_have_all_pages(self):
        recursive, direct, below, none = self.run_commands(
            [["list", "many/", True], ["list", "many/", False], ["list", "many/001", True], ["list", "none/", True]])
        files = sorted(key for key in self.objects if key.startswith("many/") and not key.endswith("/"))
        self.assertEqual([key for key, _ in recursive["value"]], files)
        self.assertEqual(len(files), 2501)
        self.assertEqual([key for key, _ in direct["value"]], [key for key in files if key != "many/below/1.tar"])
        self.assertEqual([key for key, _ in below["value"]], [f"many/{number:04}.tar" for number in range(10, 20)])
        self.assertEqual(none["value"], [])
        stamps, = self.run_commands([["stamp", "many/0000.tar"]])
        self.assertEqual(dict(map(tuple, recursive["value"]))["many/0000.tar"], stamps["value"])

    def test_a_dotted_bucket_is_read(self):
        result, = self.run_commands([["read", "a", 0, 6]], bucket="my.dotted.bucket")
        self.assertEqual(base64.b64decode(result["value"]), b"dotted")

    def test_an_absent_object_is_not_found(self):
        code, message = self.problem([["stamp", "absent.tar"], ["read", "absent.tar", 0, 1]])
        self.assertEqual(code, "not_found")
        self.assertRegex(message, r"^s3://shards/absent\.tar: the object does not exist \(status 404, NoSuchKey")

    def test_an_absent_bucket_is_no_lost_object(self):
        code, message = self.problem([["stamp", "a"], ["read", "a", 0, 1]], bucket="nowhere")
        self.assertEqual(code, "io")
        self.assertIn(f"there is no bucket 'nowhere' at {self.endpoint} (AWS_ENDPOINT_URL): check its name", message)
        self.assertIn("there is no bucket", self.problem([["list", "", True]], bucket="nowhere")[1])

    def test_a_wrong_secret_is_refused(self):
        code, message = self.problem([["stamp", "big.tar"], ["read", "big.tar", 0, 1]], AWS_SECRET_ACCESS_KEY="planted")
        self.assertEqual(code, "io")
        self.assertIn("SignatureDoesNotMatch", message)
        self.assertIn("the secret key is not that of the access key", message)
        self.assertNotIn("planted", message)

    def test_an_unknown_key_is_refused(self):
        code, message = self.problem([["stamp", "big.tar"]], AWS_ACCESS_KEY_ID="AKIAUNKNOWN")
        self.assertEqual(code, "io")
        self.assertIn("does not know the access key", message)
        self.assertNotIn("AKIAUNKNOWN", message)

    def test_rights_are_those_of_the_user(self):
        read, listed = self.run_commands([["read", "big.tar", 0, 1], ["list", "", True]], user="getter")
        self.assertIn("value", read)
        self.assertIn("may not list the bucket (s3:ListBucket)", listed["error"])
        code, message = self.problem([["stamp", "big.tar"], ["read", "big.tar", 0, 1]], user="stranger")
        self.assertEqual(code, "io")
        self.assertIn("may not read the object (s3:GetObject), or it does not exist", message)


if __name__ == "__main__":
    unittest.main()
