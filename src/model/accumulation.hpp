// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Whether a result replaces what its destination holds or is added to it.
#pragma once

namespace minisp::model {

enum class Accumulation { overwrite, add };

}  // namespace minisp::model
