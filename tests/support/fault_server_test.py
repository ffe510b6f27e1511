"""Tests of the server with faults that the tests of the HTTP client do not make: in a program, behind which another
server stands, and over TLS."""

import http.client
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import unittest

from fault_server import FaultServer

CONTENT = bytes(range(256)) * 8


class FaultServerTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="isocost-fault-server-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        (self.directory / "a b.bin").write_bytes(CONTENT)

    def start(self, **options):
        server = FaultServer(self.directory, **options)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def ask(self, server, method="GET", path="/a%20b.bin", headers=None, context=None):
        if context is None:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=30, context=context)
        self.addCleanup(connection.close)
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def test_serves_ranges_and_tells_what_was_asked_for(self):
        server = self.start()
        status, headers, body = self.ask(server, headers={"Range": "bytes=5-9", "X-Mine": "1"})
        self.assertEqual((status, body), (206, CONTENT[5:10]))
        self.assertEqual(headers["Content-Range"], f"bytes 5-9/{len(CONTENT)}")
        [entry] = server.requests()
        self.assertEqual((entry["method"], entry["path"], entry["headers"]["x-mine"]), ("GET", "/a%20b.bin", "1"))
        self.assertEqual((entry["status"], entry["bytes"]), (206, 5))
        self.assertEqual(self.ask(server, headers={"If-Match": '"other"'})[0], 412)
        self.assertEqual(self.ask(server, headers={"If-Match": headers["ETag"]})[0], 200)
        self.assertEqual(self.ask(server, headers={"Range": "bytes=99999-"})[0], 416)

    def test_serves_nothing_outside_of_its_directory(self):
        for path in ("/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/none", "/"):
            self.assertEqual(self.ask(self.start(), path=path)[0], 404, path)

    def test_hits_the_requests_that_a_rule_says(self):
        server = self.start(rules=[{"fault": "status", "status": 503, "method": "GET", "path": "a%20b", "skip": 1,
                                    "times": 2}])
        self.assertEqual(self.ask(server, "HEAD")[0], 200)
        self.assertEqual([self.ask(server)[0] for _ in range(4)], [200, 503, 503, 200])

    def test_hits_a_share_of_the_requests(self):
        server = self.start(rules=[{"fault": "status", "status": 500, "share": 0.3}])
        hit = sum(self.ask(server)[0] == 500 for _ in range(200))
        self.assertGreater(hit, 30)
        self.assertLess(hit, 90)

    def test_passes_requests_on_as_they_came(self):
        behind = self.start()
        server = self.start(upstream=f"127.0.0.1:{behind.port}",
                            rules=[{"fault": "cut", "after": 10, "how": "close", "skip": 2}])
        status, headers, body = self.ask(server, headers={"Host": "signed.example", "Range": "bytes=0-99"})
        self.assertEqual((status, body), (206, CONTENT[:100]))
        self.assertEqual(behind.requests()[0]["headers"]["host"], "signed.example")
        self.assertEqual(self.ask(server, "HEAD")[1]["Content-Length"], str(len(CONTENT)))
        with self.assertRaises(http.client.IncompleteRead):
            self.ask(server)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_speaks_tls(self):
        made = self.directory / "made.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", made, "-out",
                        self.directory / "certificate.pem"], check=True, capture_output=True)
        certificate = str(self.directory / "certificate.pem")
        server = self.start(certificate=certificate, key=str(made))
        self.assertTrue(server.address.startswith("https://127.0.0.1:"))
        context = ssl.create_default_context(cafile=certificate)
        self.assertEqual(self.ask(server, context=context)[2], CONTENT)


if __name__ == "__main__":
    unittest.main()
