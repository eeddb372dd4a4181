// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/export.hpp"

#include "comm/agree.hpp"
#include "config/hugging_face_writer.hpp"
#include "io/disk.hpp"
#include "io/shared_file.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace minisp::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* folder_key = "export.folder";
constexpr const char* weights_file = "model.safetensors";
constexpr const char* config_file = "config.json";
constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

/// Without a slash at the end, which would hide the parent.
fs::path folder_path(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// What a model in the folder consists of; an index names shards of weights.
std::string model_in(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {weights_file, config_file, "model.safetensors.index.json"})
    if (fs::exists(folder / name, ignored)) return (folder / name).string();
  return "";
}

Error cannot_be_written(const fs::path& folder) {
  return input_error("cannot be written (" + io::system_message() + ")", folder.string(),
                     "Change export.folder, or the folder's permissions");
}

/// Writes that follow each other in the file become one.
class RunWriter {
 public:
  explicit RunWriter(io::SharedFile& file) : file_(file) {}

  template <class T>
  void put(std::int64_t offset, std::span<const T> values, io::StoredType type) {
    const auto width = static_cast<std::size_t>(io::bytes_of(type));
    while (!values.empty()) {
      if (offset != offset_ + static_cast<std::int64_t>(buffer_.size()) || buffer_.size() == buffer_bytes) {
        flush();
        offset_ = offset;
      }
      const std::size_t used = buffer_.size();
      const std::size_t count = std::min(values.size(), (buffer_bytes - used) / width);
      buffer_.resize(used + count * width);
      io::encode(values.first(count), type, std::span(buffer_).subspan(used));
      values = values.subspan(count);
      offset += static_cast<std::int64_t>(count * width);
    }
  }
  void flush() {
    file_.write(offset_, buffer_);
    buffer_.clear();
  }

 private:
  io::SharedFile& file_;
  std::int64_t offset_ = 0;
  std::vector<std::byte> buffer_;
};

/// Elements [begin, end) of a tensor as it is stored here, whose place in the file starts at byte `place`.
template <class T>
void write_part(RunWriter& writer, const model::ParameterEntry& entry, std::int64_t place,
                io::StoredType type, Index begin, Index end, const T* values) {
  const Index width = io::bytes_of(type);
  if (!entry.transposed)
    return writer.put(place + begin * width, std::span(values, static_cast<std::size_t>(end - begin)), type);
  // A column here is a row there; of column c the range holds the rows r with begin <= r * columns + c < end.
  const Index columns = entry.columns;
  std::vector<T> run;
  for (Index c = 0; c < columns; ++c) {
    const Index first = (std::max(begin - c, Index(0)) + columns - 1) / columns;
    const Index last = (std::max(end - c, Index(0)) + columns - 1) / columns;
    run.clear();
    for (Index r = first; r < last; ++r) run.push_back(values[r * columns + c - begin]);
    writer.put(place + (c * entry.rows + first) * width, std::span<const T>(run), type);
  }
}

/// What this rank writes: of its pieces' master weights (in mixed precision those in bf16 are what they round
/// to) the part that falls to it among the ranks that hold the same.
template <class T>
void write_pieces(const parallel::Mesh& mesh, const model::ParameterLayout& layout,
                  const std::vector<typename parallel::ParameterStore<T>::Piece>& pieces,
                  const io::SafetensorsLayout& places, io::StoredType type, io::SharedFile& file) {
  RunWriter writer(file);
  const Index replica = mesh.replicas().rank(), replicas = mesh.replicas().size();
  for (const auto& piece : pieces) {
    const auto size = static_cast<Index>(piece.master.extent(0));
    const Index first = piece.first + size * replica / replicas;
    const Index last = piece.first + size * (replica + 1) / replicas;
    for (std::size_t t = 0; t < layout.entries().size(); ++t) {
      const auto& entry = layout.entries()[t];
      const Index begin = std::max(first, entry.offset), end = std::min(last, entry.offset + entry.size());
      if (begin >= end) continue;
      const auto part = Kokkos::create_mirror_view_and_copy(
          Kokkos::HostSpace(),
          Kokkos::subview(piece.master, Kokkos::make_pair(begin - piece.first, end - piece.first)));
      write_part(writer, entry, places.begin[t], type, begin - entry.offset, end - entry.offset,
                 static_cast<const Accumulate<T>*>(part.data()));
    }
  }
  writer.flush();
}

}  // namespace

void check_export_folder(const config::ExportConfig& wanted) {
  const fs::path folder = folder_path(wanted.folder);
  std::error_code code;
  if (!fs::exists(folder, code)) {
    const std::string parent = io::folder_of(folder.string());
    if (!fs::is_directory(parent, code))
      throw input_error("the folder " + parent + " does not exist", folder.string(),
                        "Make it, or change export.folder");
    if (access(parent.c_str(), W_OK | X_OK) != 0) throw cannot_be_written(folder);
    return;
  }
  if (!fs::is_directory(folder, code))
    throw input_error("is no folder", folder.string(), "Give the name of a folder in export.folder");
  if (const std::string present = model_in(folder); !present.empty() && !wanted.overwrite)
    throw input_error("exists already", present,
                      "Set export.overwrite=true to replace it, or give another name in export.folder");
  if (access(folder.c_str(), W_OK | X_OK) != 0) throw cannot_be_written(folder);
}

io::StoredType export_type(config::ExportType wanted, config::Precision precision) {
  switch (wanted) {
    case config::ExportType::float32:
      return io::StoredType::float32;
    case config::ExportType::bfloat16:
      return io::StoredType::bfloat16;
    case config::ExportType::stored:
      break;
  }
  switch (precision) {
    case config::Precision::fp64:
      return io::StoredType::float64;
    case config::Precision::bf16:
      return io::StoredType::bfloat16;
    case config::Precision::fp32:
      break;
  }
  return io::StoredType::float32;
}

template <class T>
void export_weights(const config::Config& config, const parallel::Mesh& mesh,
                    const model::ParameterLayout& layout,
                    const std::vector<typename parallel::ParameterStore<T>::Piece>& pieces) {
  const auto& world = mesh.world();
  const bool root = world.rank() == 0;
  const fs::path folder = folder_path(config.export_to.folder);
  const io::StoredType type = export_type(config.export_to.type, config.train.precision);
  std::vector<io::NamedShape> tensors;
  for (const auto& entry : layout.entries()) tensors.push_back({entry.name, entry.shape});
  const io::SafetensorsLayout places = io::lay_out(tensors, type);
  const std::string text =
      config::hugging_face_config(config.model, io::torch_name(type), config.data.end_of_document);

  bool made = false;
  comm::collective_guard(world, [&] {
    std::error_code code;
    if (root) made = fs::create_directory(folder, code);
    if (code)
      throw environment_error("cannot be made (" + code.message() + ")", folder.string(),
                              "Change export.folder");
  });
  try {
    io::SharedFile config_json(world, (folder / config_file).string(), static_cast<std::int64_t>(text.size()),
                               folder_key);
    io::SharedFile weights(world, (folder / weights_file).string(), places.bytes, folder_key);
    comm::collective_guard(world, [&] {
      if (root) config_json.write(0, std::as_bytes(std::span(text)));
      if (root) weights.write(0, places.header);
      write_pieces<T>(mesh, layout, pieces, places, type, weights);
    });
    config_json.finish();
    weights.finish();
    comm::collective_guard(world, [&] {
      if (const std::string present = root ? model_in(folder) : "";
          !present.empty() && !config.export_to.overwrite) {
        config_json.keep_partial();
        weights.keep_partial();
        throw input_error(
            "has appeared during the run", present,
            "The weights were kept as " + weights.partial() + ", beside " + config_json.partial());
      }
    });
    config_json.publish();
    weights.publish();
  } catch (...) {
    std::error_code ignored;
    if (made) fs::remove(folder, ignored);  // only where it is empty
    throw;
  }
}

#define MINISP_INSTANTIATE(T)                                                   \
  template void export_weights<T>(const config::Config&, const parallel::Mesh&, \
                                  const model::ParameterLayout&,                \
                                  const std::vector<typename parallel::ParameterStore<T>::Piece>&);
MINISP_INSTANTIATE(bfloat16)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::train
