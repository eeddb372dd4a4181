#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Exported models: names, shapes and config.json are those that Transformers has loaded, and the trained weights give
# the loss and logits that it computed (tests/reference/exported, recorded by tests/reference/check_export.py, which
# trains the same way). Nothing that was there is lost, and a full disk leaves nothing half-written.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
reference=$MINISP_SOURCE/tests/reference
once=(train.steps=1 train.learning_rate=0)
# Steps as tests/reference/check_export.py takes them.
cat >"$scratch/deck.toml" <<'DECK'
[model]
weights = "folder"
[data]
source = "tokens"
[train]
steps = 3
warmup_steps = 0
precision = "fp64"
optimizer = "sgd"
learning_rate = 0.1
[parallel]
system = "basp"
[verify]
enabled = false
DECK

# set_run FOLDER CASE SEQUENCES LENGTH END_OF_DOCUMENT: the words of a run from the weights in FOLDER
set_run() {
  run=(run "$scratch/deck.toml" "model.folder=$1" "data.file=$reference/$2/tokens.bin" "data.row_stride=$(($4 + 1))"
    "data.end_of_document=$5" "train.batch=$3" "train.sequence_length=$4")
}

check_export() { # check_export RANKS CASE SEQUENCES LENGTH END_OF_DOCUMENT [WORD ...]
  local ranks=$1 name=$2 model=$scratch/$2-$1 recorded=$reference/exported/$2
  set_run "$reference/$name" "${@:2:4}"
  expect_valid "$ranks" "${run[@]}" "${@:6}" "export.folder=$model"
  expect_out "^weights  $model$"
  [[ $(ls "$model") == $'config.json\nmodel.safetensors' ]] || die "other files than those two"
  cmp "$model/config.json" "$recorded/config.json" || die "config.json is another one"
  cmp -i 8:0 -n "$(stat -c %s "$recorded/header.json")" "$model/model.safetensors" "$recorded/header.json" ||
    die "the header is another one"
  set_run "$model" "${@:2:4}"
  expect_valid 1 "${run[@]}" "${once[@]}" "output.file=$model.h5" output.logits=true
  minisp 1 compare "$model.h5" "$recorded/reference.h5" --tolerance 1e-11
  expect_code 0
  for kind in loss 'gradient norm' logits; do expect_out "^$kind +1 +0 "; done
}

check_export 1 llama-gqa-scaled-rope 4 48 -1
check_export 4 llama-gqa-scaled-rope 4 48 -1 parallel.sharding=zero3
check_export 1 llama-untied-packed 4 48 0
check_export 2 qwen2-bias 2 48 -1 parallel.sharding=mics
check_export 4 qwen3-qk-norm 8 24 -1 parallel.sharding=zero1
check_export 1 gpt2 4 48 -1
check_export 8 gpt2 4 48 -1 parallel.system=ulysses parallel.sharding=zero3

# Read and written again under another decomposition: the same bytes.
model=$scratch/gpt2-1
set_run "$model" gpt2 4 48 -1
expect_valid 4 "${run[@]}" "${once[@]}" parallel.sharding=zero3 "export.folder=$scratch/again/"
cmp "$scratch/again/model.safetensors" "$model/model.safetensors" || die "the weights have changed on the way"
# Smaller numbers.
expect_valid 2 "${run[@]}" "${once[@]}" "export.folder=$scratch/half" export.type=bfloat16
grep -q '"torch_dtype": "bfloat16"' "$scratch/half/config.json" || die "config.json does not say bfloat16"
[[ $(($(stat -c %s "$scratch/half/model.safetensors") * 3)) -lt $(stat -c %s "$model/model.safetensors") ]] ||
  die "bfloat16 takes more than a third of fp64"

# A model that is there stays, unless the deck says otherwise; said before the run.
before=$(cat "$scratch/again/"* | sha256sum)
refuse 2 4 'again/model.safetensors: exists already' "${run[@]}" "export.folder=$scratch/again"
expect_no_out '^step'
refuse 2 4 'no_such does not exist' "${run[@]}" "export.folder=$scratch/no_such/model"
refuse 2 4 'deck.toml: is no folder' "${run[@]}" "export.folder=$scratch/deck.toml"
[[ $(cat "$scratch/again/"* | sha256sum) == "$before" ]] || die "a refused run changed the model"
expect_valid 2 "${run[@]}" "export.folder=$scratch/again" export.overwrite=true
[[ $(cat "$scratch/again/"* | sha256sum) != "$before" ]] || die "overwrite = true did not overwrite"

# A full disk: the weights take 886 kB. Needs root and mounts.
full=$scratch/full
mkdir "$full"
if [[ $(id -u) -eq 0 ]] && mount -t tmpfs -o size=500k minisp-test "$full" 2>/dev/null; then
  trap 'umount "$full"; rm -rf "$scratch"' EXIT
  mkdir "$full/old"
  echo old >"$full/old/config.json"
  refuse 3 4 'model.safetensors: no room: [0-9]+ bytes are needed \(No space' "${run[@]}" "export.folder=$full/new"
  refuse 3 4 'model.safetensors: no room' "${run[@]}" "export.folder=$full/old" export.overwrite=true
  [[ $(cat "$full/old/config.json") == old && $(ls "$full/old") == config.json && $(ls "$full") == old ]] ||
    die "a full disk cost the old file, or something is left on it"
else
  echo "export_test.sh: no full disk here (it takes root and mounts)"
fi
finish
