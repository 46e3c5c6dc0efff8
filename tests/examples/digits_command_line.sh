#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The digits example's response to wrong flags and files: a sentence, a status that is not 0, and no lost data. Usage: $0 DIGITS
set -uo pipefail
digits=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refused SENTENCE FLAG...: the program must not return 0, and must write the sentence.
refused() {
  local sentence=$1 status=0
  shift
  timeout 60 "$digits" "$@" > "$work/output" 2>&1 || status=$?
  if [ $status = 0 ] || [ $status -ge 124 ] || ! grep -qF -- "$sentence" "$work/output"; then
    echo "digits $*: status $status; expected: $sentence"
    sed 's/^/    /' "$work/output"
    failed=1
  fi
}

refused "there is no 'tree'; choose auto, ring, recursive_doubling, circulant, one_shot or two_shot" --algorithm tree
refused "there is no 'deep'; choose network or linear" --model deep
refused "'0' is not possible; choose a whole number from 1 to 64" --ranks 0
refused "'0' is not possible; choose a whole number from 1 to 64" --ranks 1,2,0
refused "'-3' is not possible; choose a whole number from 1 to 64" --ranks=-3
refused "'65' is not possible; choose a whole number from 1 to 64" --ranks 65
refused "'two' is not possible" --ranks two
refused "'2.5' is not possible" --epochs 2.5
refused "'0' is not possible" --epochs 0
refused "'0' is not possible" --batch 0
refused "240 images cannot be divided equally among 7 ranks; choose a multiple of 7, such as 238" --ranks 7
refused "have no effect without --outer" --delay 1
refused "must be at least --fragments and greater than --delay" --outer 4 --delay 4
refused "cannot be combined with --leaves" --outer 4 --leaves 4
refused "choose a smaller --batch" --images 100 --batch 120
refused "--unknown" --unknown
refused "$work/none is not a directory" --mnist "$work/none"
refused "$work/train-images-idx3-ubyte does not exist" --mnist "$work"

printf '\0\0\10\3\0\0\0\2\0\0\0\34\0\0\0\34short' > "$work/train-images-idx3-ubyte"
printf '\0\0\10\1\0\0\0\2\1\2' > "$work/train-labels-idx1-ubyte"
refused "$work/train-images-idx3-ubyte is truncated: its header announces 1568 bytes, but 5 follow" --mnist "$work"

# idx MAGIC COUNT DIMENSIONS BYTES: writes a file of zeros with an IDX header; MAGIC and COUNT are single bytes in octal.
idx() { printf "\\0\\0\\10\\$1\\0\\0\\0\\$2$3"; head -c "$4" /dev/zero; }
for part in train t10k; do
  idx 3 170 '\0\0\0\34\0\0\0\34' $((120 * 784)) > "$work/$part-images-idx3-ubyte"
  idx 1 170 '' 120 > "$work/$part-labels-idx1-ubyte"
done
"$digits" --mnist "$work" --batch 120 --ranks 1,2 --epochs 2 > "$work/output" 2>&1 && grep -qF '120 MNIST digits for training' "$work/output" ||
  { cat "$work/output"; failed=1; }

# A checkpoint that cannot be written is an error at the end; the training's result is printed.
small=(--images 600 --epochs 2 --ranks 2)
refused "the last checkpoint was not written: kolo: No such file or directory" "${small[@]}" --checkpoint "$work/none/state"
grep -qF 'Processes' "$work/output" || { echo "the result was lost with the checkpoint"; failed=1; }
echo precious > "$work/state"
(ulimit -f 300; refused "307200 free" --images 600 --epochs 2 --ranks 1 --checkpoint "$work/state"; exit $failed) || failed=1
grep -qE 'File too large: [0-9]+ bytes needed|No space left on device: [0-9]+ bytes needed' "$work/output" || failed=1
[ "$(cat "$work/state")" = precious ] || { echo "a failed checkpoint has changed the previous one"; failed=1; }
[ -z "$(find "$work" -name '*partial*')" ] || { echo "a failed checkpoint has left a temporary file"; failed=1; }

# On a network that a file describes, more ranks can be simulated than processes started.
refused "'513' is not possible; choose a whole number from 1 to 512" --simulate "$work/network" --ranks 513
if [ -e /usr/include/nlohmann/json.hpp ]; then
  refused "$work/network cannot be read" "${small[@]}" --simulate "$work/network"
  echo '{"latency": 1e-5, "ranks_per_node": 8, "inside": {"latency": 1e-6}}' > "$work/network"
  "$digits" --images 600 --batch 200 --epochs 2 --ranks 1,100 --simulate "$work/network" > "$work/output" 2>&1 &&
    grep -qF '100 simulated ranks' "$work/output" && grep -qF 'Virtual time: ' "$work/output" && grep -qF 'Same training curve' "$work/output" ||
    { cat "$work/output"; failed=1; }
fi

# Next to the speed of the processes, the table shows that of the same number of processes without communication.
"$digits" --images 2400 --batch 30 --epochs 1 --ranks 1,2 > "$work/output" 2>&1 && grep -qE '^ +1 .* - +-   compute' "$work/output" &&
  grep -qE '^ +2 +[0-9.]+ % +[0-9.]+ +[1-9][0-9]* +[1-9][0-9]* +[1-9][0-9]* %   compute' "$work/output" || { cat "$work/output"; failed=1; }

# Local steps train beside synchronous ones, also in virtual time.
simulated=()
[ ! -e /usr/include/nlohmann/json.hpp ] || simulated=(--simulate "$work/network")
"$digits" --images 9600 --epochs 4 --ranks 2,3 --outer 10 --fragments 2 --delay 1 --accuracy-above 85 "${simulated[@]}" > "$work/output" 2>&1 &&
  [ "$(grep -c ' % with local steps, ' "$work/output")" = 2 ] || { cat "$work/output"; failed=1; }

# Right calls succeed: every algorithm, and a checkpoint that is read back.
for algorithm in auto ring recursive_doubling circulant one_shot two_shot; do
  "$digits" --images 600 --epochs 2 --ranks 1,2,3 --algorithm $algorithm > "$work/output" 2>&1 || { cat "$work/output"; failed=1; }
done
"$digits" "${small[@]}" --checkpoint "$work/state" > "$work/output" 2>&1 && grep -qF "Accuracy of the checkpoint in $work/state" "$work/output" ||
  { cat "$work/output"; failed=1; }
exit $failed
