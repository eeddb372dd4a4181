# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Run at build time: writes TARGET from SOURCE with the commit of REPOSITORY; untouched when nothing changed.

execute_process(COMMAND git -C "${REPOSITORY}" describe --always --dirty --abbrev=12
  OUTPUT_VARIABLE MINISP_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR MINISP_COMMIT STREQUAL "")
  set(MINISP_COMMIT "not a git repository")
endif()
configure_file("${SOURCE}" "${TARGET}" @ONLY)
