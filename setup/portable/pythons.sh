# To be sourced.

# find_python VERSION: the CPython of this version ("3.12") on PATH or of pyenv. Status 1 where there is none.
find_python() {
  local candidate
  for candidate in "$(command -v "python$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python3; do
    # pyenv's command on PATH is a script, which fails for versions that are not chosen.
    [ ! -x "$candidate" ] ||
      ! "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))' 2>/dev/null || return 0
  done
  return 1
}
