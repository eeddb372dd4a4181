// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/token_source.hpp"

#include "io/byte_file.hpp"
#include "train/token_source_synthetic.hpp"
#include "util/error.hpp"

#include <cstring>
#include <string>

namespace minisp::train {

namespace {

/// Little-endian unsigned integers of `width` bytes. Row r begins at token (r mod rows) * stride; the rows
/// are those that fit whole, and after the last one the file begins again.
class FileSource : public TokenSource {
 public:
  FileSource(const config::Config& config, std::int64_t width)
      : file_(config.data.file,
              "Set data.file to a file of tokens; a relative path starts at the working directory"),
        width_(width),
        stride_(config.data.row_stride > 0 ? config.data.row_stride : config.train.sequence_length),
        vocabulary_(config.model.vocabulary) {
    if (file_.size() % width != 0)
      throw input_error("the file has " + std::to_string(file_.size()) +
                            " bytes, no whole number of tokens of " + std::to_string(width) + " bytes",
                        file_.path(), "Check data.token_type, or get the file again: it may be cut off");
    const std::int64_t tokens = file_.size() / width, row = config.train.sequence_length + 1;
    if (tokens < row)
      throw input_error(
          "the file holds " + std::to_string(tokens) + " tokens, but a row takes " + std::to_string(row),
          file_.path(), "Lower train.sequence_length or use a longer file");
    rows_ = (tokens - row) / stride_ + 1;
  }

  void row(std::int64_t global_row, std::span<std::int32_t> out) const override {
    const std::int64_t first = global_row % rows_ * stride_;
    const auto width = static_cast<std::size_t>(width_);
    // The bytes go to the end of `out` and are widened from its front: a token is never written over bytes
    // that are still to be read, because it takes at least `width` bytes.
    const auto bytes = std::as_writable_bytes(out).last(out.size() * width);
    file_.read(first * width_, bytes);
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint32_t token = 0;
      std::memcpy(&token, bytes.data() + i * width, width);
      if (token >= vocabulary_) {
        const std::int64_t position = first + static_cast<std::int64_t>(i);
        throw input_error("token " + std::to_string(position) + " (byte " +
                              std::to_string(position * width_) + ") is " + std::to_string(token) +
                              ", outside the vocabulary of " + std::to_string(vocabulary_),
                          file_.path(), "Raise model.vocabulary, or check data.token_type");
      }
      out[i] = static_cast<std::int32_t>(token);
    }
  }

  std::optional<std::int64_t> rows_per_epoch() const override { return rows_; }

 private:
  io::ByteFile file_;
  std::int64_t width_, stride_, rows_ = 0, vocabulary_;
};

}  // namespace

std::unique_ptr<TokenSource> make_token_source(const config::Config& config) {
  switch (config.data.source) {
    case config::DataSource::synthetic:
      return std::make_unique<SyntheticSource>(config);
    case config::DataSource::tokens:
      return std::make_unique<FileSource>(config,
                                          config.data.token_type == config::TokenType::uint16 ? 2 : 4);
    case config::DataSource::text:
      return std::make_unique<FileSource>(config, 1);
  }
  throw input_error("the source is unknown", "data.source", "Use synthetic, tokens or text");
}

}  // namespace minisp::train
