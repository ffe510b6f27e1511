"""Shards on servers of HTTPS: the OpenSSL of a self-contained wheel beside Python's, and authorities."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import isocost
from support import PROGRAM, SAMPLES, TIMEOUT, ShardTest, main

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import fault_server  # noqa: E402

PROCESS = pathlib.Path(__file__).with_name("tls_process.py")
BUNDLED = pathlib.Path(isocost.__file__).parents[1] / "isocost.libs"  # A self-contained wheel has it.
DEBIAN = "/etc/ssl/certs/ca-certificates.crt"
RED_HAT = "/etc/pki/tls/certs/ca-bundle.crt"
# Runs a command in a mount namespace of its own, where the folder $1 stands for /etc.
OTHER_ETC = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)), "sh", "-c",
             'mount --bind "$1" /etc && shift && exec "$@"', "sh")


def environment(**variables):
    """This process's, with no other variable that names certificates than these."""
    return {**{name: value for name, value in os.environ.items() if name not in ("SSL_CERT_FILE", "AWS_CA_BUNDLE")},
            **variables}


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed, which makes a certificate")
class Tls(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.certificate, cls.key = str(cls.directory / "certificate.pem"), str(cls.directory / "key.pem")
        # Without the system's configuration of openssl, and with what Python 3.13 wants of an authority.
        extensions = ("subjectAltName=IP:127.0.0.1", "basicConstraints=critical,CA:TRUE", "subjectKeyIdentifier=hash",
                      "keyUsage=critical,digitalSignature,keyCertSign")
        subprocess.run(["openssl", "req", "-config", "/dev/null", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
                        "2", "-subj", "/CN=isocost test", "-keyout", cls.key, "-out", cls.certificate,
                        *(word for extension in extensions for word in ("-addext", extension))], check=True,
                       capture_output=True, timeout=TIMEOUT)

    def serve_https(self):
        """The address of a shard."""
        server = fault_server.FaultServer(self.shards, certificate=self.certificate, key=self.key)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        return f"{server.address}shard-000000.tar"

    def check(self, address, before=(), arguments=(), **variables):
        """`isocost check` of a shard, which goes wrong at its first request or not at all."""
        return subprocess.run([*before, PROGRAM, "check", address, *arguments], env=environment(**variables),
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def other_etc(self):
        """A copy of /etc without certificates, and the command that puts it there for the command behind it."""
        etc = pathlib.Path(tempfile.mkdtemp(dir=self.directory)) / "etc"
        etc.mkdir()
        for path in pathlib.Path("/etc").iterdir():
            if path.name not in ("ssl", "pki"):
                subprocess.run(["cp", "-a", path, etc], check=False, capture_output=True)  # what may be read
        before = (*OTHER_ETC, str(etc))
        if subprocess.run([*before, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("no mount namespace may be made here, in which /etc is another folder")
        return etc, before

    def expect_refused(self, done, places):
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the server cannot be trusted", done.stderr)
        self.assertIn(f"certificates were looked for in {places}. If its authority is another", done.stderr)

    def test_pythons_ssl_and_isocost_speak_in_one_process(self):
        own = sorted(path.name for path in BUNDLED.glob("*.so*") if path.name.startswith(("libcrypto", "libssl")))
        for modules in ("ssl,torch,isocost", "isocost,ssl,torch"):
            with self.subTest(modules=modules), tempfile.TemporaryDirectory(dir=self.directory) as indexes:
                done = subprocess.run([sys.executable, "-B", "-X", "faulthandler", PROCESS, modules, self.shards,
                                       self.certificate, self.key, indexes], capture_output=True, text=True,
                                      timeout=2 * TIMEOUT, env=environment(SSL_CERT_FILE=self.certificate), check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                told = json.loads(done.stdout)
                self.assertEqual(told["samples"], list(range(SAMPLES)))
                if BUNDLED.exists():
                    self.expect_two_of_each(told["libraries"], own, own_first=modules.startswith("isocost"))

    def expect_two_of_each(self, paths, own, own_first):
        """The wheel's libcrypto and libssl, and Python's."""
        names = [pathlib.Path(path).name for path in paths]
        for pair in own, [name for name in names if name not in own]:
            self.assertEqual([re.split("[-.]", name)[0] for name in pair], ["libcrypto", "libssl"])
        self.assertEqual(names[:2] if own_first else names[-2:], own)

    def test_an_authority_that_is_not_known_is_refused_with_the_places(self):
        address = self.serve_https()
        unset = "SSL_CERT_FILE (not set), AWS_CA_BUNDLE (not set), "
        done = self.check(address)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"certificates were looked for in {unset}/etc/", done.stderr)
        with unittest.mock.patch.dict(os.environ, environment(), clear=True):
            with self.assertRaisesRegex(OSError, "the server cannot be trusted.*certificates were looked"):
                isocost.DataLoader(address, global_batch_size=2, microbatches=1)
        for variable in ("SSL_CERT_FILE", "AWS_CA_BUNDLE"):
            with self.subTest(variable=variable):
                done = self.check(address, **{variable: self.certificate})
                self.assertEqual(done.returncode, 0, done.stderr)
                done = self.check(address, **{variable: f"{self.directory}/none.pem"})
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(f"{variable}: ", done.stderr)
                self.assertIn(f"{self.directory}/none.pem", done.stderr)

    def test_the_option_names_a_file_before_variables(self):
        address = self.serve_https()
        arguments = "--ca-file", self.certificate
        done = self.check(address, arguments=arguments, SSL_CERT_FILE=f"{self.directory}/none.pem")
        self.assertEqual(done.returncode, 0, done.stderr)
        with unittest.mock.patch.dict(os.environ, environment(), clear=True):
            node = isocost.NodeOptions(ca_file=self.certificate, index_dir=str(self.directory / "option"))
            with isocost.DataLoader(address, global_batch_size=2, microbatches=1, node=node) as loader:
                self.assertTrue(next(iter(loader)).sample_ids)

    @unittest.skipUnless(all(map(importlib.util.find_spec, ("tokenizers", "jinja2"))),
                         "tokenizers or jinja2 is not installed: ./run test --torch2 has them")
    def test_the_option_holds_for_tokens_too(self):
        import model_directories
        from model_test import this_python_first

        address = self.serve_https()
        model = model_directories.make(self.directory / "model")
        indexes = str(self.directory / "tokens")
        done = subprocess.run([PROGRAM, "tokenize", address, "--model", model, "--index-dir", indexes, "--ca-file",
                               self.certificate], env=environment(**this_python_first()), capture_output=True,
                              text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with unittest.mock.patch.dict(os.environ, environment(), clear=True):
            node = isocost.NodeOptions(ca_file=self.certificate, index_dir=str(self.directory / "missing"))
            with isocost.DataLoader(address, global_batch_size=2, microbatches=1, model=str(model),
                                    node=node) as loader:
                self.assertTrue(next(iter(loader)).sample_ids)

    def test_the_systems_certificates_are_those_of_debian_or_of_red_hat(self):
        address = self.serve_https()
        etc, before = self.other_etc()
        unset = "SSL_CERT_FILE (not set), AWS_CA_BUNDLE (not set), "
        self.expect_refused(self.check(address, before), f"{unset}{DEBIAN} (not there), {RED_HAT} (not there)")
        for place in (RED_HAT, DEBIAN):
            with self.subTest(place=place):
                file = etc / pathlib.Path(place).relative_to("/etc")
                file.parent.mkdir(parents=True)
                shutil.copy(self.certificate, file)
                done = self.check(address, before)
                self.assertEqual(done.returncode, 0, done.stderr)
                file.unlink()


if __name__ == "__main__":
    main()
