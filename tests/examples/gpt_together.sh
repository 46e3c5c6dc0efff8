#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The small GPT on data, tensor, pipeline and ring ranks learns what one process learns, and sends the expected bytes. Usage: $0 GPT
set -uo pipefail
gpt=$1
failed=0
small=(--steps 12 --batch 8 --width 16 --places 16)
x=$((16 * 8 * 16 * 4))  # bytes that go from layer to layer

# expect FLAGS ROW...: the program succeeds, and prints these rows: dimension, ranks, calls, bytes; `-` is any number.
expect() {
  local flags row said
  read -ra flags <<< "$1"
  shift
  if ! said=$("$gpt" "${small[@]}" "${flags[@]}" 2>&1); then
    echo "${flags[*]}: failed"$'\n'"$said" && failed=1
    return
  fi
  for row in "$@"; do
    set -- $row
    if ! grep -qE "^${1/_/ } +$2 .* ${3/#-/[0-9]+} +${4/#-/[0-9]+}\$" <<< "$said"; then
      echo "${flags[*]}: there is no row: $row"$'\n'"$said" && failed=1
    fi
  done
}

expect "--data 2" "data 2 - -"
expect "--tensor 2" "tensor 2 8 $((8 * x))"
expect "--tensor 4" "tensor 4 8 -"
expect "--pipeline 2" "pipeline 2 8 $x"
expect "--pipeline 3 --layers 4 --micro-batches 2" "pipeline 3 4 $x"
expect "--pipeline 4 --layers 4 --micro-batches 2" "pipeline 4 4 $x"  # more ranks than micro-batches
expect "--ring 4" "ring 4 20 $((20 * 2 * x / 4))"
expect "--data 2 --tensor 2" "data 2 - -" "tensor 2 8 $((8 * x / 2))"
expect "--data 2 --pipeline 2" "data 2 - -" "pipeline 2 8 $((x / 2))"
expect "--data 2 --tensor 2 --pipeline 2 --ring 2" "data,_ring 4 - -" "tensor 2 16 $((8 * x / 8))" "pipeline 2 8 $((x / 4))" \
  "ring 2 16 $((4 * 2 * x / 8))"

for wrong in "--tensor 3" "--pipeline 3" "--ring 3" "--data 3" "--data 2 --ranks 2"; do
  read -ra flags <<< "$wrong"
  said=$("$gpt" "${small[@]}" "${flags[@]}" 2>&1)
  case $?:$said in
    0:*) echo "$wrong: was not refused" && failed=1 ;;
    *--*) ;;
    *) echo "$wrong: $said" && failed=1 ;;
  esac
done
exit $failed
