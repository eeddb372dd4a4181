// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// HDF5's C API behind handles that close themselves and calls that are all checked. A failure is an Error
// (environment; bad input for a file that cannot be read) that names the file and the object and carries
// HDF5's own message; HDF5 itself prints nothing.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace minisp::io {

/// Extents of an array, slowest first; empty for a scalar.
using Shape = std::vector<std::int64_t>;
std::int64_t elements_of(const Shape& shape);

/// A part of an array: `count` elements from `start` along every axis.
struct Slab {
  Shape start, count;
};
/// Cuts a slab into slabs of at most `limit` elements, which follow each other in its row-major order.
std::vector<Slab> pieces_of(const Slab& slab, std::int64_t limit);

/// Owns one HDF5 identifier. Move-only.
template <herr_t (*Close)(hid_t)>
class H5Handle {
 public:
  H5Handle() = default;
  explicit H5Handle(hid_t id) : id_(id) {}
  H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  H5Handle& operator=(H5Handle&& other) noexcept {
    if (this != &other) {
      close();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }
  ~H5Handle() { close(); }

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  /// Gives the identifier up without closing it.
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }
  /// Closes now; negative where HDF5 fails (a file's last bytes may reach the disk only here).
  herr_t close() {
    const hid_t id = std::exchange(id_, H5I_INVALID_HID);
    return id >= 0 ? Close(id) : 0;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};
using H5File = H5Handle<H5Fclose>;
using H5Group = H5Handle<H5Gclose>;
using H5Dataset = H5Handle<H5Dclose>;
using H5Attribute = H5Handle<H5Aclose>;
using H5Space = H5Handle<H5Sclose>;
using H5Type = H5Handle<H5Tclose>;
using H5Properties = H5Handle<H5Pclose>;

/// HDF5's innermost message about the last failed call of this thread.
std::string hdf5_message();

/// Opens a file for reading. Missing, unreadable, truncated or no HDF5: Error (bad_input).
H5File open_for_reading(const std::string& path);
/// Opens an existing file for reading and writing with the serial driver.
H5File open_for_appending(const std::string& path);
/// Creates (truncates) a file with the serial driver.
H5File create_file(const std::string& path);

/// True when every component of `path` exists below `location`.
bool exists(hid_t location, const std::string& path);
/// Opens the group at `path`; Error (bad_input) where it is missing.
H5Group open_group(hid_t location, const std::string& path);
/// Opens the group at `path`, made with all its parents where it is missing.
H5Group make_group(hid_t location, const std::string& path);
/// Paths of all datasets (or groups) below `path`, relative to it, sorted; empty when `path` does not exist.
std::vector<std::string> list_datasets(hid_t location, const std::string& path);
std::vector<std::string> list_groups(hid_t location, const std::string& path);

/// Attributes of `object` (a file stands for its root group). T: double, std::int64_t, bool (stored as 0 or
/// 1), std::string, and std::vector of double, std::int64_t and std::string. Text is stored as UTF-8. Writing
/// replaces. HDF5 limits an attribute to 64 KiB: longer text is a dataset.
template <class T>
void write_attribute(hid_t object, const std::string& name, const T& value);
template <class T>
T read_attribute(hid_t object, const std::string& name);
inline void write_attribute(hid_t object, const std::string& name, const char* value) {
  write_attribute(object, name, std::string(value));
}
bool has_attribute(hid_t object, const std::string& name);
bool is_numeric_attribute(hid_t object, const std::string& name);
std::vector<std::string> list_attributes(hid_t object);

/// The `units` and `description` attributes that every dataset of miniSP has; dimensionless: "1".
void describe(hid_t dataset, const std::string& units, const std::string& description);

/// HDF5 type of T in memory and in the file: double, float, std::int64_t, std::int32_t.
template <class T>
hid_t hdf5_type();
template <>
hid_t hdf5_type<double>();
template <>
hid_t hdf5_type<float>();
template <>
hid_t hdf5_type<std::int64_t>();
template <>
hid_t hdf5_type<std::int32_t>();

/// Creates a dataset of the given shape (groups made as needed), contiguous and never filled.
template <class T>
H5Dataset create_dataset(hid_t location, const std::string& path, const Shape& shape);
/// Creates and writes a whole dataset from `data`, elements_of(shape) values in row-major order.
template <class T>
void write_dataset(hid_t location, const std::string& path, const Shape& shape, const T* data,
                   const std::string& units, const std::string& description);
template <class T>
void write_dataset(hid_t location, const std::string& path, const std::vector<T>& values,
                   const std::string& units, const std::string& description) {
  write_dataset(location, path, Shape{static_cast<std::int64_t>(values.size())}, values.data(), units,
                description);
}
/// One text (any length), or a list of texts.
void write_text(hid_t location, const std::string& path, const std::string& text,
                const std::string& description);
void write_texts(hid_t location, const std::string& path, const std::vector<std::string>& texts,
                 const std::string& description);

H5Dataset open_dataset(hid_t location, const std::string& path);
Shape shape_of(hid_t dataset);
/// A numeric dataset, whole or in part, row-major; any stored number type converts.
std::vector<double> read_doubles(hid_t location, const std::string& path);
std::vector<double> read_doubles(hid_t dataset, const Slab& slab);
/// out (elements_of(slab.count) values) = the part, in its type or any other.
template <class T>
void read_slab(hid_t dataset, const Slab& slab, T* out);
/// Selects a slab in a dataspace of an array.
void select(hid_t space, const Slab& slab);
std::vector<std::int64_t> read_integers(hid_t location, const std::string& path);
std::string read_text(hid_t location, const std::string& path);
std::vector<std::string> read_texts(hid_t location, const std::string& path);

/// "FILE: /path/of/object" of an open object, for messages.
std::string location_name(hid_t object, const std::string& path = "");

/// Throws Error (environment) with HDF5's message.
[[noreturn]] void throw_hdf5_error(const std::string& what, const std::string& where);
/// Does so when `result` is negative; else returns it.
template <class Result>
Result checked(Result result, const std::string& what, const std::string& where) {
  if (result < 0) throw_hdf5_error(what, where);
  return result;
}

}  // namespace minisp::io
