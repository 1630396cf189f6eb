# The stages of ./test, one function each, and what they share. ./test defines root, add, check, require and the table parts_of.
# shellcheck shell=bash disable=SC2154

# ---- Building --------------------------------------------------------------------------------------------------------

# The layers that have unit tests. The slowest come first, so that two processes finish at about the same time.
layers_with_tests() {
  local layer
  printf 'models exec engine backends '
  for layer in tests/unit/*/; do
    layer=$(basename "$layer")
    case $layer in models | exec | engine | backends) continue ;; esac
    compgen -G "tests/unit/$layer/*.cc" >/dev/null && printf '%s ' "$layer"
  done
}

# The layers that a stage tests with a sanitizer, slowest first. test_project only reads the sources.
sanitized_layers() {  # STAGE
  local layer
  for layer in $(layers_with_tests); do
    [ "$layer" != project ] && [[ -z ${parts_of[$1]:-} || " ${parts_of[$1]} " == *" $layer "* ]] && printf '%s ' "$layer"
  done
}

# Many end-to-end tests wait most of the time. Meanwhile later stages are compiled in the idle class of the scheduler, with processor
# time that nothing else wants. The first of these stages ends that and compiles the rest itself, so that a busy machine does not
# delay it and errors are reported there.
building_ahead=''  # the process group
build_ahead() {  # STAGE...
  local name preset layers
  set -m
  for name in "$@"; do
    case $name in
      unit) preset=release && read -ra layers < <(layers_with_tests) ;;
      asan | tsan) preset=$name && read -ra layers < <(sanitized_layers "$name") ;;
      *) continue ;;
    esac
    chrt --idle 0 tools/build.sh "$preset" "${layers[@]/#/test_}"
  done >/dev/null 2>&1 &
  building_ahead=$!
  set +m
}
stop_building_ahead() {
  [ -n "$building_ahead" ] || return 0
  kill -- -"$building_ahead" 2>/dev/null
  while pgrep -g "$building_ahead" >/dev/null; do sleep 0.1; done
  building_ahead=''
}

# Objects that the compiler cache had instead of compiling them.
cache_hits() { ccache --print-stats 2>/dev/null | awk '/^(direct|preprocessed)_cache_hit/ { hits += $2 } END { print hits + 0 }'; }

# The program itself. The time of a cold build is the unit of the budgets of all stages.
build() {
  local begin=$SECONDS cold=no hits
  [ -d build/release ] || cold=yes
  hits=$(cache_hits)
  check tools/build.sh release quire || return 1
  [ $(($(cache_hits) - hits)) -lt 10 ] || cold=no
  [ $cold = no ] || { cold_seconds=$((SECONDS - begin)) && echo "$cold_seconds" >build/cold-build-seconds; }
}

# Builds the tests of some layers and runs them, two programs at a time.
build_and_run() {  # PRESET LAYER...
  local preset=$1 layer targets=() reports=() status=0
  shift
  for layer in "$@"; do
    targets+=("test_$layer")
    reports+=("build/$preset/reports/test_$layer.xml")
  done
  stop_building_ahead
  tools/build.sh "$preset" "${targets[@]}" || return 1
  rm -rf "build/$preset/reports"/test_*.xml
  (cd "build/$preset" && GTEST_OUTPUT="xml:$root/build/$preset/reports/" \
    ctest --output-on-failure -j2 -R "^($(IFS='|' && echo "${targets[*]}"))\$") || status=1
  # shellcheck disable=SC2046
  add $(tools/count_tests.py "${reports[@]}")
  return $status
}

# Runs pytest in the virtual environment DIRECTORY and counts its tests.
run_pytest() {  # REPORT DIRECTORY ARGUMENT...
  local report=$root/build/release/reports/$1.xml directory=$2 status=0
  shift 2
  mkdir -p build/release/reports
  rm -f "$report"
  QUIRE_BINARY=$root/build/release/quire "$directory/bin/python" -m pytest -q --junitxml="$report" "$@" || status=1
  # shellcheck disable=SC2046
  add $(tools/count_tests.py "$report")
  return $status
}

python_with() { tools/make_venv.sh "$1" "${2:-build/venv}"; }  # REQUIREMENTS [DIRECTORY]

# Entries of tests/known_failures.txt that match a pattern, without their reasons.
known_failures() { sed -e 's/ *#.*//' -e '/^$/d' tests/known_failures.txt | grep -E "$1"; }

# ---- Stages of ./test ------------------------------------------------------------------------------------------------

format() {
  require clang-format || return 1
  clang-format --version | grep -q 'version 14' || { echo "the format is that of clang-format 14" >&2; return 1; }
  check check_format
}

check_format() {
  git ls-files 'src/*.h' 'src/*.cc' 'include/*.h' 'tests/*.h' 'tests/*.cc' 'examples/*.cc' 'tools/*.cc' 'bench/*.cc' 'python/*.h' 'python/*.cc' |
    xargs clang-format --dry-run --Werror 2>&1 | head -n 20
  return "${PIPESTATUS[1]}"
}

# Wording in documentation and comments, names of identifiers (the tables in tools/language), and whether the faults that
# tools/plant_faults.py plants still fit the sources.
language() {
  check python3 tools/language/lint.py
  check python3 tools/language/census.py
  check python3 tools/plant_faults.py --check
}

unit() {
  local excluded
  excluded=$(known_failures '^[A-Z]' | paste -sd:)
  [ -z "$excluded" ] || export GTEST_FILTER="-$excluded"
  # shellcheck disable=SC2046
  build_and_run release $(layers_with_tests) || return 1
  unset GTEST_FILTER
  add 0 0 "$(known_failures '^[A-Z]' | wc -l)"
  check ctest --test-dir build/release --output-on-failure -R '^backends\.'
}

# Two workers with a file each, because most tests wait.
e2e() {
  local options=(-n 2 --dist loadfile --maxfail=10) name
  tools/build.sh release quire || return 1
  python_with tests/e2e/requirements.txt || return 1
  for name in $(known_failures '^tests/'); do
    options+=(--deselect "$name")
    add 0 0 1
  done
  run_pytest e2e build/venv "${options[@]}" tests/e2e tests/attacks tests/page
}

# The Python package, built next to the program and tested without installing it.
python() {
  stop_building_ahead
  python_with tests/python/requirements.txt || return 1
  cmake --preset release -DQUIRE_PYTHON=ON -DPython_EXECUTABLE="$root/build/venv/bin/python" >/dev/null || return 1
  tools/build.sh release quire_python || return 1
  PYTHONPATH=$root/build/release/python run_pytest python build/venv --maxfail=10 tests/python
}

# Installs quire, builds an example against the installed library, and packs it.
package() {
  stop_building_ahead
  tools/build.sh release quire quire_library || return 1
  check tools/check_hardening.py build/release/quire && check installed_example && packages
}

# tools/check_packages.py --clean-root DIR also installs the package in a new Debian system.
packages() {
  local output status=0
  output=$(tools/check_packages.py) || status=1
  printf '%s\n' "$output"
  add "$(grep -c '^passed ' <<<"$output")" "$(grep -c '^FAILED ' <<<"$output")" "$(grep -c '^skipped ' <<<"$output")"
  return $status
}

installed_example() {
  local prefix=$root/build/package/prefix
  rm -rf build/package
  cmake --install build/release --prefix "$prefix" >/dev/null &&
    cmake -S examples/cpp -B build/package/example -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null &&
    cmake --build build/package/example && build/package/example/stories
}

# GPU programs without a GPU (docs/gpu.md): they are compiled and their machine code is read. A check that needs a tool which this
# machine cannot install counts as skipped.
gpu() { check_gpu compiled; }

check_gpu() {  # PART
  local status=0 report=build/gpu/report
  bench/gpu/check.sh "$1" || status=1
  add "$(grep -c '^passed' "$report")" "$(grep -c '^FAILED' "$report")" "$(grep -c '^skipped' "$report")"
  return $status
}

# ---- Stages of ./test --all ------------------------------------------------------------------------------------------

# Without slow tests of results whose code other tests run here too.
asan() {
  local excluded='*/Invariance.*/quire_tiny*:InvarianceOfInstructionSets.*:KvWaste.*'
  require clang++ || return 1
  # shellcheck disable=SC2046
  GTEST_FILTER="-$excluded" ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 build_and_run asan $(sanitized_layers asan)
}

# Without slow tests that have one thread, compare instruction sets or a reference, or measure accuracy; other tests run the same
# kernels with several threads. Each small model runs with several threads; quire-tiny would take minutes. Other tests of the engine
# preempt and share prefixes.
tsan() {
  local excluded='*/ModelIsa.*:*/QuantizedIsa.*:*OnIsa.*:*InstructionSets*:*.AllLevels*:KvQuality.*'
  excluded+=':PagedAttention.MatchesTheReference:PagedAttention.Bfloat16Pairs*:Linear.MatchesFloat64*'
  excluded+=':ValuesInKeys.GiveTheResults*:ValuesInKeys.*SparseMask:SelectedKeys.SelectingAllKeys*'
  excluded+=':*/Invariance.*/quire_tiny*:*/Invariance.IsUnchanged*:*/BeamGolden.Matches*:*/BeamGolden.*/quire_tiny'
  excluded+=':EngineSimulation.*:ParseJsonObject.*'
  require clang++ || return 1
  # shellcheck disable=SC2046
  GTEST_FILTER="-$excluded" TSAN_OPTIONS=halt_on_error=1 build_and_run tsan $(sanitized_layers tsan)
}

# One libFuzzer target over the inputs in tests/fuzz/corpus and those that earlier runs found. An input that fails is kept in
# build/fuzz. Recording only two frames per allocation and keeping fewer freed bytes makes some targets twice as fast; run the
# target on the kept input alone for complete stack traces.
fuzz_one() {  # TARGET
  local name=${1#fuzz_} found=build/fuzz/corpus/${1#fuzz_} options=()
  mkdir -p "$found"
  [ -f "tests/fuzz/corpus/$name.tar.xz" ] && tar -xJf "tests/fuzz/corpus/$name.tar.xz" -C "$found"
  [ -d "tests/fuzz/corpus/$name" ] && options+=("tests/fuzz/corpus/$name")
  [ -f "tests/fuzz/$name.dict" ] && options+=("-dict=tests/fuzz/$name.dict")
  if [ "$name" = tokenizer_json ]; then
    local fixture
    for fixture in tests/fixtures/tokenizers/*/tokenizer.json; do
      cp "$fixture" "$found/$(basename "$(dirname "$fixture")")"
    done
    options+=(-max_len=16384)
  fi
  ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=2:quarantine_size_mb=16} "build/asan/fuzz/$1" "$found" "${options[@]}" \
    -max_total_time="${QUIRE_FUZZ_SECONDS:-10}" -timeout=10 -rss_limit_mb=4096 -seed=1 -artifact_prefix="build/fuzz/$name-" \
    >"build/fuzz/$name.log" 2>&1 ||
    { tail -n 40 "build/fuzz/$name.log"; echo "FAILED $1: the input is kept in build/fuzz/$name-*"; return; }
  printf 'passed %-24s %s\n' "$1" "$(grep -o '^Done.*' "build/fuzz/$name.log")"
}

fuzz() {
  local file targets=() output
  require clang++ || return 1
  stop_building_ahead
  tools/build.sh asan fuzzers || return 1
  for file in tests/fuzz/*_fuzz.cc; do targets+=("fuzz_$(basename "$file" _fuzz.cc)"); done
  export -f fuzz_one
  output=$(printf '%s\n' "${targets[@]}" | xargs -P2 -I{} bash -c 'fuzz_one {}')
  printf '%s\n' "$output"
  local passed
  passed=$(grep -c '^passed ' <<<"$output")
  add "$passed" $((${#targets[@]} - passed))
}

# The kernels of the GPU programs on an emulated device, with sanitizers and without each of their barriers.
emulate() { check_gpu emulated; }

# The Python wheel, built with the compiler cache of the release build and tested in a fresh virtual environment.
wheel() {
  local file
  python_with tests/wheel/requirements.txt build/venv-wheel || return 1
  tools/build.sh release quire || return 1
  file=$(tools/build_wheel.sh build/venv-wheel/bin/python "$root/build/wheel") || return 1
  QUIRE_WHEEL=$file run_pytest wheel build/venv-wheel tests/wheel
}

# The OpenAI classes of LLM frameworks and agents against the server, and what llguidance accepts. Their packages need 700 and 170 MB. They have environments of
# their own, because some of the frameworks need version 2 of the openai client and the agents version 3.
frameworks() {
  local status=0
  python_with tests/frameworks/requirements.txt build/venv-frameworks || return 1
  python_with tests/frameworks/agents/requirements.txt build/venv-agents || return 1
  tools/build.sh release quire test_grammar || return 1
  run_pytest frameworks build/venv-frameworks tests/frameworks --ignore tests/frameworks/agents || status=1
  run_pytest agents build/venv-agents tests/frameworks/agents || status=1
  return $status
}

tidy_one() {  # FILE
  # GCC warns of things that clang has no option for.
  if clang-tidy --quiet -p build/tidy --extra-arg=-Wno-unknown-warning-option "$1" 2>&1; then
    echo "passed $1"
  else
    echo "FAILED $1"
  fi
}

# clang-tidy reads all sources, those of some layers, or some sources.
tidy() {
  local output part parts
  require clang-tidy || return 1
  read -ra parts <<<"${parts_of[tidy]:-.}"
  # clang cannot read the headers that GCC has precompiled.
  cmake --preset release -B build/tidy -DQUIRE_PRECOMPILE=OFF >/dev/null || return 1
  export -f tidy_one
  output=$(for part in "${parts[@]}"; do
    if [ -f "$part" ]; then echo "$part"; else git ls-files "src/$part/*.cc"; fi
  done | xargs -r -P2 -I{} bash -c 'tidy_one {}')
  grep -v -e '^passed ' -e ' warnings\? generated' <<<"$output"
  add "$(grep -c '^passed ' <<<"$output")" "$(grep -c '^FAILED ' <<<"$output")"
}
