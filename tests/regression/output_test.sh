#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Result files: what was there before is not lost, whatever goes wrong.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
quick=(train.steps=1 train.warmup_steps=0 train.batch=4 parallel.system=ulysses)

old=$scratch/old.h5
head -c 3000 /dev/urandom >"$old"
before=$(sha256sum <"$old")
expect_untouched() {
  [[ $(sha256sum <"$old") == "$before" ]] || die "the old file was changed"
  [[ ! -e $old.partial ]] || die "a partial file is left"
}

refuse 2 4 'old.h5: .*exists' run "$tiny" "${quick[@]}" "output.file=$old"
expect_no_out '^step' # before hours of work, not after them
expect_untouched
refuse 2 4 'no_such_folder' run "$tiny" "${quick[@]}" "output.file=$scratch/no_such_folder/a.h5"
expect_no_out '^step'
refuse 2 4 "$(basename "$scratch")" run "$tiny" "${quick[@]}" "output.file=$scratch"
refuse 2 4 'output.gradients: ' run "$tiny" "${quick[@]}" output.gradients=true
# A run that is refused leaves what it was to overwrite.
refuse 2 4 'vocabulary' run "$tiny" "${quick[@]}" data.source=text "data.file=$tiny" model.vocabulary=255 \
  "output.file=$old" output.overwrite=true
refuse 2 4 'train.sequence_length = 90' run "$tiny" "${quick[@]}" train.sequence_length=90 "output.file=$old" \
  output.overwrite=true
expect_untouched

if [[ $(id -u) -ne 0 ]]; then # root may write everywhere
  mkdir "$scratch/locked"
  chmod 555 "$scratch/locked"
  refuse 2 4 'locked' run "$tiny" "${quick[@]}" "output.file=$scratch/locked/a.h5"
fi

# A full disk: a file system of 200 kB, of which the old file takes some; the result needs more. Needs root and mounts.
full=$scratch/full
mkdir "$full"
if [[ $(id -u) -eq 0 ]] && mount -t tmpfs -o size=200k minisp-test "$full" 2>/dev/null; then
  trap 'umount "$full"; rm -rf "$scratch"' EXIT
  cp "$old" "$full/old.h5"
  refuse 3 4 'old.h5.*(space|full)' run "$tiny" "${quick[@]}" "output.file=$full/old.h5" output.overwrite=true \
    output.gradients=true
  [[ $(sha256sum <"$full/old.h5") == "$before" ]] || die "a full disk cost the old file"
  [[ $(ls "$full") == old.h5 ]] || die "something is left on the full disk"
else
  echo "output_test.sh: no full disk here (it takes root and mounts)"
fi

expect_valid 4 run "$tiny" "${quick[@]}" "output.file=$old" output.overwrite=true
[[ $(sha256sum <"$old") != "$before" ]] || die "overwrite = true did not overwrite"
[[ ! -e $old.partial ]] || die "a partial file is left"
expect_valid 1 compare "$old" "$old"
finish
