#!/bin/sh
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
# The example of a schedule of one's own: what it prints agrees with its own table of time slots (half
# a unit each, 48 actions a rank), and the picture has a cell for every action.
set -eu
out=$TPP_BUILD_DIR/own_schedule.txt svg=$TPP_BUILD_DIR/own_schedule.svg
"$TPP_BUILD_DIR/bin/own_schedule" "$svg" >"$out"
tail -n 1 "$out"
tr -d '\r' <"$out" | awk -F, '
    /^,*0F0,|^,+[0-9]/ { rows++; slots = NF > slots ? NF : slots
                         for (i = 1; i <= NF; i++) actions += $i != "" }
    /^makespan/        { said = $0 }
    END { want = sprintf("makespan %.1f, idle %.1f of it;", slots / 2, slots / 2 - 24)
          if (rows != 4 || actions != 4 * 48 || index(said, want) != 1) {
              print rows " rows, " actions " actions, \"" said "\", not \"" want "\""; exit 1 } }'
test "$(grep -c 'class="cell ' "$svg")" -eq 192
