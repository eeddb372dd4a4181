// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Weights for other programs: a folder with model.safetensors and config.json that Transformers loads.
#pragma once

#include "config/config.hpp"
#include "io/safetensors_writer.hpp"
#include "parallel/mesh.hpp"
#include "parallel/parameter_store.hpp"

#include <string>
#include <vector>

namespace minisp::train {

/// Throws Error (bad_input) when the folder cannot take a model: one is there and export.overwrite is false,
/// its parent is missing, or it cannot be written. Not collective; call it before the run, so that hours of
/// work do not end in this error.
void check_export_folder(const config::ExportConfig& wanted);

/// The type that weights of a precision are exported in.
io::StoredType export_type(config::ExportType wanted, config::Precision precision);

/// Collective; every rank throws the same Error. Writes the folder (made where it is missing) from the pieces
/// of the flat buffer that the ranks hold: each rank writes its own bytes, replicas share theirs, and no rank
/// holds more than a part of one tensor beside the weights. The files are the same, byte by byte, whatever
/// the decomposition. They appear complete or not at all: config.json first, then model.safetensors.
template <class T>
void export_weights(const config::Config& config, const parallel::Mesh& mesh,
                    const model::ParameterLayout& layout,
                    const std::vector<typename parallel::ParameterStore<T>::Piece>& pieces);

}  // namespace minisp::train
