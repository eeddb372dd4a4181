#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# What is wrong in a deck, on the command line or in a file is refused by four ranks with one line and exit code 2.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
reference=$MINISP_SOURCE/tests/reference/llama-untied-packed

# Command line.
refuse 2 4 "there is no command 'launch'.*Known: run, .*--help" launch
refuse 2 4 "Did you mean 'verify'" verfy
refuse 2 4 'no deck is named' run
refuse 2 4 'neither a deck nor --reference' verify
refuse 2 4 'command line: ' run "$tiny" --no-such-option
refuse 2 4 'no_such_deck.toml: ' run "$scratch/no_such_deck.toml"

# Keys and values: from the deck with file and line, from the command line with the key.
refuse 2 4 'command line: model.layer: .*model.layers' run "$tiny" model.layer=3
refuse 2 4 'command line: model.layers: .*whole number' run "$tiny" model.layers=two
refuse 2 4 'command line: train.precision: .*fp32' run "$tiny" train.precision=fp31
refuse 2 4 'command line: train.steps: .*>= 1' run "$tiny" train.steps=0
refuse 2 4 'llama-3.2-1b' run "$tiny" model.preset=llama-3.2-1c
sed 's/^batch = .*/bacth = 24/' "$tiny" >"$scratch/unknown.toml"
refuse 2 4 "unknown.toml:$(grep -n '^bacth' "$scratch/unknown.toml" | cut -d: -f1): train.bacth: .*train.batch" \
  run "$scratch/unknown.toml"
sed 's/^batch = .*/batch = "many"/' "$tiny" >"$scratch/type.toml"
refuse 2 4 'type.toml:[0-9]+: train.batch: .*"many"' run "$scratch/type.toml"
printf '[train\nbatch = 2\n' >"$scratch/broken.toml"
refuse 2 4 'broken.toml:[12]: ' run "$scratch/broken.toml"
sed 's/^batch = .*/&\nbatch = 12/' "$tiny" >"$scratch/twice.toml"
refuse 2 4 'twice.toml:[0-9]+: .*batch' run "$scratch/twice.toml"

# Sizes that do not divide, with those that would.
refuse 2 4 'train.batch = 6 .*4 or 8' run "$tiny" train.batch=6
refuse 2 4 'model.heads = 6 .*4 or 8' run "$tiny" parallel.system=ulysses model.heads=6 model.kv_heads=6
refuse 2 4 'model.kv_heads = 3 .*1, 2, 4' run "$tiny" parallel.system=ulysses model.kv_heads=3
refuse 2 4 'train.sequence_length = 90 .*88 or 92' run "$tiny" parallel.system=ulysses train.sequence_length=90
refuse 2 4 'parallel.sequence_degree = 3 ' run "$tiny" parallel.system=ulysses parallel.sequence_degree=3
refuse 2 4 'single' run "$tiny" parallel.system=single
refuse 2 4 'heads' run "$tiny" model.kv_heads=5 # no divisor of the query heads

# Files that are not there, or not whole.
refuse 2 4 'tokens.bin: ' run "$tiny" data.source=tokens "data.file=$scratch/tokens.bin"
head -c 101 "$reference/tokens.bin" >"$scratch/tokens.bin"
refuse 2 4 'tokens.bin: .*101 bytes' run "$tiny" data.source=tokens "data.file=$scratch/tokens.bin"
head -c 100 "$reference/tokens.bin" >"$scratch/tokens.bin"
refuse 2 4 'tokens.bin: .*50 tokens' run "$tiny" data.source=tokens "data.file=$scratch/tokens.bin"
refuse 2 4 'data.file .*no file is named' run "$tiny" data.source=text
cp -r "$reference" "$scratch/model"
size=$(stat -c %s "$reference/model.safetensors")
head -c $((size - 1000)) "$reference/model.safetensors" >"$scratch/model/model.safetensors"
refuse 2 4 'model.safetensors: ' verify --reference "$scratch/model" parallel.system=data-parallel
rm "$scratch/model/model.safetensors"
refuse 2 4 'model' verify --reference "$scratch/model" parallel.system=data-parallel
head -c 50000 "$reference/reference.h5" >"$scratch/model/reference.h5"
refuse 2 4 'reference.h5: ' verify --reference "$scratch/model" parallel.system=data-parallel
refuse 2 4 'reference.h5: ' verify --reference "$scratch/no_such_folder"
refuse 2 1 'a.h5: ' compare "$scratch/a.h5" "$scratch/b.h5"
echo 'no HDF5' >"$scratch/a.h5"
refuse 2 1 'a.h5: ' compare "$scratch/a.h5" "$scratch/a.h5"

# A token outside the vocabulary: met in the middle of training, by one rank before the others.
printf '\377\377%.0s' {1..9} >"$scratch/large.bin"
head -c 6000 /dev/zero >>"$scratch/large.bin"
minisp 4 run "$tiny" data.source=tokens "data.file=$scratch/large.bin" train.sequence_length=8 train.batch=4
expect_code 2
grep -Eq '^minisp: .*large.bin: token [0-9]+ .*65535' "$scratch/err" || die "no word of the token"
finish
