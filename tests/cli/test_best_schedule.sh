#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The example of a search: the paper's ZB-2p row, 4.33 %, is proved best in a row; a V does better.
set -eu
cd "$TPP_BUILD_DIR"
bin/best_schedule >best_schedule.txt
cat best_schedule.txt
grep -q '^ *16  looped *1152\.6 *4\.33 % *1152\.6 *0\.00 %$' best_schedule.txt
awk '$1 == 16 && $2 == "V" { exit !($4 < 0.5) }' best_schedule.txt
grep -q '</svg>' best_schedule.svg
