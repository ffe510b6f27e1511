# Output of ./run demo before its first step, and at the steps that come before demo.py; to be sourced.

demo_steps() { grep -v '^#' examples/demo/steps.txt; }

# about SECONDS: "about 4 min"
about() { if [ "$1" -lt 60 ]; then echo "about $1 s"; else echo "about $((($1 + 30) / 60)) min"; fi; }

# demo_done NAME: whether an earlier demo has left what this step makes.
demo_done() {
  case "$1" in
    install) [ -z "$(missing_packages setup/packages.txt)" ] ;;
    build) [ -x $build/isocost ] && [ -x $build/multimodal_trainer ] ;;
    media) compgen -G "build/demo/shards/*.tar" >/dev/null ;;
    profile) [ -e build/demo/profile.json ] ;;
    *) false ;;
  esac
}

# demo_outline: all steps with their times.
demo_outline() {
  local number=0 name seconds what
  say "The demo trains a small multimodal model on real media and compares three ways to divide batches. Its steps:"
  while read -r name seconds what; do
    number=$((number + 1))
    if demo_done "$name"; then seconds="done before"; else seconds=$(about "$seconds"); fi
    printf '  %d. %-66s %s\n' "$number" "$what" "$seconds" >&2
  done < <(demo_steps)
  echo "The times are those of --quick on two quiet cores; without it the passes take four times as long." >&2
  echo "Everything but the packages stays in build/. After Ctrl-C, ./run demo goes on at the step it was in." >&2
}

# demo_step NAME: announces a step and what is left after it.
demo_step() {
  local number=0 at=0 left=0 name seconds what text=
  while read -r name seconds what; do
    number=$((number + 1))
    if [ "$name" = "$1" ]; then
      at=$number text=$what
    elif [ $at -gt 0 ] && ! demo_done "$name"; then
      left=$((left + seconds))
    fi
  done < <(demo_steps)
  say "step $at of $number: $text; after it $(about $left)"
}
