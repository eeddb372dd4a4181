// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/hdf5.hpp"

#include "util/error.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <type_traits>

namespace minisp::io {

namespace {

/// HDF5 prints its error stack by default; here every failure becomes an Error.
void silence_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

H5Space space_of(const Shape& shape) {
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  return H5Space(checked(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                         "cannot describe an array", ""));
}

/// Variable length UTF-8, which h5py and others read as text.
H5Type text_type() {
  H5Type type(checked(H5Tcopy(H5T_C_S1), "cannot make a text type", ""));
  checked(H5Tset_size(type.get(), H5T_VARIABLE), "cannot make a text type", "");
  checked(H5Tset_cset(type.get(), H5T_CSET_UTF8), "cannot make a text type", "");
  return type;
}

std::vector<const char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const auto& text : texts) pointers.push_back(text.c_str());
  return pointers;
}

/// Calls visit(name, is_group) for every group and dataset below `path`. The tree is walked by index: the
/// visiting functions of HDF5 changed between 1.10 and 1.12, these did not.
void for_each_object(hid_t location, const std::string& path,
                     const std::function<void(const std::string&, bool)>& visit) {
  if (!exists(location, path)) return;
  const auto where = location_name(location, path);
  const H5Group group(checked(H5Gopen2(location, path.c_str(), H5P_DEFAULT), "cannot open the group", where));
  H5G_info_t info;
  checked(H5Gget_info(group.get(), &info), "cannot list the group", where);
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const auto name_of = [&](char* text, std::size_t size) {
      return checked(
          H5Lget_name_by_idx(group.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i, text, size, H5P_DEFAULT),
          "cannot list the group", where);
    };
    std::string name(static_cast<std::size_t>(name_of(nullptr, 0)), '\0');
    name_of(name.data(), name.size() + 1);
    const H5Handle<H5Oclose> object(checked(H5Oopen(group.get(), name.c_str(), H5P_DEFAULT),
                                            "cannot open the object", location_name(group.get(), name)));
    const bool is_group = H5Iget_type(object.get()) == H5I_GROUP;
    visit(name, is_group);
    if (is_group)
      for_each_object(group.get(), name, [&](const std::string& below, bool group_below) {
        visit(name + "/" + below, group_below);
      });
  }
}

std::vector<std::string> list_objects(hid_t location, const std::string& path, bool groups) {
  std::vector<std::string> names;
  for_each_object(location, path, [&](const std::string& name, bool is_group) {
    if (is_group == groups) names.push_back(name);
  });
  std::sort(names.begin(), names.end());
  return names;
}

H5Properties group_making_properties() {
  H5Properties links(checked(H5Pcreate(H5P_LINK_CREATE), "cannot make link properties", ""));
  checked(H5Pset_create_intermediate_group(links.get(), 1), "cannot make link properties", "");
  return links;
}

H5Dataset create(hid_t location, const std::string& path, hid_t type, const Shape& shape) {
  const auto links = group_making_properties();
  H5Properties creation(checked(H5Pcreate(H5P_DATASET_CREATE), "cannot make dataset properties", path));
  // Every element is written; text of variable length needs its fill value all the same.
  if (H5Tget_class(type) != H5T_STRING)
    checked(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "cannot set the fill time", path);
  // The same content is the same file, whenever it is written.
  checked(H5Pset_obj_track_times(creation.get(), false), "cannot leave out the time", path);
  const auto space = space_of(shape);
  return H5Dataset(
      checked(H5Dcreate2(location, path.c_str(), type, space.get(), links.get(), creation.get(), H5P_DEFAULT),
              "cannot create the dataset", location_name(location, path)));
}

H5Attribute make_attribute(hid_t object, const std::string& name, hid_t type, hid_t space) {
  if (has_attribute(object, name))
    checked(H5Adelete(object, name.c_str()), "cannot replace the attribute", location_name(object, name));
  return H5Attribute(checked(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                             "cannot create the attribute", location_name(object, name)));
}

void write_attribute_values(hid_t object, const std::string& name, hid_t type, hid_t space,
                            const void* values) {
  const auto attribute = make_attribute(object, name, type, space);
  checked(H5Awrite(attribute.get(), type, values), "cannot write the attribute", location_name(object, name));
}

constexpr const char* foreign_file = "Was the file written by this version of miniSP?";

H5Attribute open_attribute(hid_t object, const std::string& name) {
  if (!has_attribute(object, name))
    throw input_error("there is no such attribute", location_name(object, name), foreign_file);
  return H5Attribute(checked(H5Aopen(object, name.c_str(), H5P_DEFAULT), "cannot open the attribute",
                             location_name(object, name)));
}

void require_numbers(hid_t type, const std::string& where) {
  const auto kind = H5Tget_class(type);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT)
    throw input_error("holds no numbers where some are expected", where, foreign_file);
}

/// Strings of a dataset or attribute of one dimension or none, of fixed or variable length.
/// `read(type, buffer)` is H5Dread or H5Aread of it.
std::vector<std::string> read_strings(hid_t file_type, hid_t space, const std::string& where,
                                      const std::function<herr_t(hid_t, void*)>& read) {
  if (H5Tget_class(file_type) != H5T_STRING)
    throw input_error("holds numbers where text is expected", where, foreign_file);
  const auto count =
      static_cast<std::size_t>(checked(H5Sget_simple_extent_npoints(space), "cannot tell the size", where));
  std::vector<std::string> texts(count);
  if (count == 0) return texts;
  if (checked(H5Tis_variable_str(file_type), "cannot tell the type", where) > 0) {
    std::vector<char*> buffer(count, nullptr);
    H5Type type(checked(H5Tcopy(file_type), "cannot copy the type", where));
    checked(read(type.get(), buffer.data()), "cannot read", where);
    for (std::size_t i = 0; i < count; ++i)
      if (buffer[i]) texts[i] = buffer[i];
#if H5_VERSION_GE(1, 12, 0)
    H5Treclaim(type.get(), space, H5P_DEFAULT, buffer.data());
#else
    H5Dvlen_reclaim(type.get(), space, H5P_DEFAULT, buffer.data());
#endif
  } else {
    const std::size_t length = H5Tget_size(file_type);
    std::vector<char> buffer(count * length);
    checked(read(file_type, buffer.data()), "cannot read", where);
    for (std::size_t i = 0; i < count; ++i) {
      texts[i].assign(buffer.data() + i * length, length);
      texts[i].resize(std::min(texts[i].find('\0'), length));
    }
  }
  return texts;
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

}  // namespace

std::int64_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<Slab> pieces_of(const Slab& slab, std::int64_t limit) {
  const auto axis = std::find_if(slab.count.begin(), slab.count.end(), [](auto n) { return n > 1; });
  if (elements_of(slab.count) <= limit || axis == slab.count.end()) return {slab};
  const auto a = axis - slab.count.begin();
  const auto row = elements_of(slab.count) / *axis;
  const auto rows = std::max<std::int64_t>(1, limit / row);
  std::vector<Slab> pieces;
  for (std::int64_t begin = 0; begin < *axis; begin += rows) {
    Slab part = slab;
    part.start[a] += begin;
    part.count[a] = std::min(rows, *axis - begin);
    for (auto& piece : pieces_of(part, limit)) pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::string hdf5_message() {
  std::string message;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* error, void* text) -> herr_t {
        if (depth == 0 && error->desc) *static_cast<std::string*>(text) = error->desc;
        return 0;
      },
      &message);
  return message.empty() ? "no message from HDF5" : message;
}

void throw_hdf5_error(const std::string& what, const std::string& where) {
  throw environment_error(
      what + " (HDF5: " + hdf5_message() + ")", where,
      "Check the disk's free space and quota, and that the file is not changed meanwhile");
}

std::string location_name(hid_t object, const std::string& path) {
  char text[1024];
  std::string name;
  if (H5Fget_name(object, text, sizeof text) > 0) name = text;
  std::string inside;
  if (H5Iget_type(object) != H5I_FILE && H5Iget_name(object, text, sizeof text) > 0) inside = text;
  if (!path.empty()) {
    if (path.front() != '/' && (inside.empty() || inside.back() != '/')) inside += '/';
    inside += path;
  }
  return inside.empty() ? name : name + ": " + inside;
}

H5File open_for_reading(const std::string& path) {
  silence_hdf5();
  if (std::filesystem::is_directory(path))
    throw input_error("is a folder, not a file", path, "Name the HDF5 file in it");
  H5File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (file) return file;
  const std::string reason = hdf5_message();
  if (!std::filesystem::exists(path)) throw input_error("there is no such file", path, "Check the path");
  throw input_error("cannot be read as an HDF5 file (" + reason + ")", path,
                    "It is damaged, was copied in part, or is no HDF5 file");
}

H5File open_for_appending(const std::string& path) {
  silence_hdf5();
  return H5File(checked(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "cannot open the file", path));
}

H5File create_file(const std::string& path) {
  silence_hdf5();
  return H5File(checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                        "cannot create the file", path));
}

bool exists(hid_t location, const std::string& path) {
  // H5Lexists wants every parent to exist, so the path is tried component by component.
  for (std::size_t end = 0; end < path.size();) {
    end = std::min(path.find('/', end + 1), path.size());
    const auto part = path.substr(0, end);
    if (part == "/" || part.empty()) continue;
    if (H5Lexists(location, part.c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

H5Group open_group(hid_t location, const std::string& path) {
  H5Group group(H5Gopen2(location, path.c_str(), H5P_DEFAULT));
  if (!group) throw input_error("there is no such group", location_name(location, path), foreign_file);
  return group;
}

H5Group make_group(hid_t location, const std::string& path) {
  if (exists(location, path)) return open_group(location, path);
  const auto links = group_making_properties();
  return H5Group(checked(H5Gcreate2(location, path.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT),
                         "cannot create the group", location_name(location, path)));
}

std::vector<std::string> list_datasets(hid_t location, const std::string& path) {
  return list_objects(location, path, false);
}
std::vector<std::string> list_groups(hid_t location, const std::string& path) {
  return list_objects(location, path, true);
}

template <>
hid_t hdf5_type<double>() {
  return H5T_NATIVE_DOUBLE;
}
template <>
hid_t hdf5_type<float>() {
  return H5T_NATIVE_FLOAT;
}
template <>
hid_t hdf5_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
hid_t hdf5_type<std::int32_t>() {
  return H5T_NATIVE_INT32;
}

template <class T>
void write_attribute(hid_t object, const std::string& name, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    write_attribute<std::int64_t>(object, name, value ? 1 : 0);
  } else if constexpr (std::is_same_v<T, std::string>) {
    const char* text = value.c_str();
    const H5Space scalar(H5Screate(H5S_SCALAR));
    write_attribute_values(object, name, text_type().get(), scalar.get(), &text);
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    const auto texts = pointers_to(value);
    const auto space = space_of({static_cast<std::int64_t>(texts.size())});
    write_attribute_values(object, name, text_type().get(), space.get(), texts.data());
  } else if constexpr (IsVector<T>::value) {
    const auto space = space_of({static_cast<std::int64_t>(value.size())});
    write_attribute_values(object, name, hdf5_type<typename T::value_type>(), space.get(), value.data());
  } else {
    const H5Space scalar(H5Screate(H5S_SCALAR));
    write_attribute_values(object, name, hdf5_type<T>(), scalar.get(), &value);
  }
}

template <class T>
T read_attribute(hid_t object, const std::string& name) {
  const auto attribute = open_attribute(object, name);
  const auto where = location_name(object, name);
  const H5Space space(H5Aget_space(attribute.get()));
  const H5Type type(H5Aget_type(attribute.get()));
  const auto count = checked(H5Sget_simple_extent_npoints(space.get()), "cannot tell the size", where);
  if constexpr (std::is_same_v<T, bool>) {
    return read_attribute<std::int64_t>(object, name) != 0;
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>) {
    auto texts = read_strings(type.get(), space.get(), where, [&](hid_t memory_type, void* buffer) {
      return H5Aread(attribute.get(), memory_type, buffer);
    });
    if constexpr (IsVector<T>::value) {
      return texts;
    } else {
      if (texts.size() != 1) throw input_error("is not one text", where, foreign_file);
      return texts[0];
    }
  } else if constexpr (IsVector<T>::value) {
    require_numbers(type.get(), where);
    T values(static_cast<std::size_t>(count));
    checked(H5Aread(attribute.get(), hdf5_type<typename T::value_type>(), values.data()),
            "cannot read the attribute", where);
    return values;
  } else {
    require_numbers(type.get(), where);
    if (count != 1) throw input_error("is not one number", where, foreign_file);
    T value{};
    checked(H5Aread(attribute.get(), hdf5_type<T>(), &value), "cannot read the attribute", where);
    return value;
  }
}

bool has_attribute(hid_t object, const std::string& name) {
  return checked(H5Aexists(object, name.c_str()), "cannot look for the attribute",
                 location_name(object, name)) > 0;
}

bool is_numeric_attribute(hid_t object, const std::string& name) {
  const auto attribute = open_attribute(object, name);
  const H5Type type(
      checked(H5Aget_type(attribute.get()), "cannot tell the type", location_name(object, name)));
  const auto kind = H5Tget_class(type.get());
  return kind == H5T_INTEGER || kind == H5T_FLOAT;
}

std::vector<std::string> list_attributes(hid_t object) {
  std::vector<std::string> names;
  checked(H5Aiterate2(
              object, H5_INDEX_NAME, H5_ITER_INC, nullptr,
              [](hid_t, const char* name, const H5A_info_t*, void* list) -> herr_t {
                static_cast<std::vector<std::string>*>(list)->emplace_back(name);
                return 0;
              },
              &names),
          "cannot list the attributes", location_name(object));
  return names;
}

void describe(hid_t dataset, const std::string& units, const std::string& description) {
  write_attribute(dataset, "units", units);
  write_attribute(dataset, "description", description);
}

template <class T>
H5Dataset create_dataset(hid_t location, const std::string& path, const Shape& shape) {
  return create(location, path, hdf5_type<T>(), shape);
}

template <class T>
void write_dataset(hid_t location, const std::string& path, const Shape& shape, const T* data,
                   const std::string& units, const std::string& description) {
  const auto dataset = create_dataset<T>(location, path, shape);
  checked(H5Dwrite(dataset.get(), hdf5_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
          "cannot write the dataset", location_name(location, path));
  describe(dataset.get(), units, description);
}

void write_text(hid_t location, const std::string& path, const std::string& text,
                const std::string& description) {
  write_texts(location, path, {text}, description);
}

void write_texts(hid_t location, const std::string& path, const std::vector<std::string>& texts,
                 const std::string& description) {
  const auto type = text_type();
  const auto dataset = create(location, path, type.get(), {static_cast<std::int64_t>(texts.size())});
  const auto pointers = pointers_to(texts);
  if (!texts.empty())
    checked(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()),
            "cannot write the dataset", location_name(location, path));
  write_attribute(dataset.get(), "description", description);
}

H5Dataset open_dataset(hid_t location, const std::string& path) {
  H5Dataset dataset(H5Dopen2(location, path.c_str(), H5P_DEFAULT));
  if (!dataset) throw input_error("there is no such dataset", location_name(location, path), foreign_file);
  return dataset;
}

Shape shape_of(hid_t dataset) {
  const H5Space space(checked(H5Dget_space(dataset), "cannot tell the shape", location_name(dataset)));
  std::vector<hsize_t> extents(static_cast<std::size_t>(
      checked(H5Sget_simple_extent_ndims(space.get()), "cannot tell the shape", location_name(dataset))));
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  return {extents.begin(), extents.end()};
}

template <class T>
std::vector<T> read_all(hid_t location, const std::string& path) {
  const auto dataset = open_dataset(location, path);
  require_numbers(H5Type(H5Dget_type(dataset.get())).get(), location_name(location, path));
  std::vector<T> values(static_cast<std::size_t>(elements_of(shape_of(dataset.get()))));
  checked(H5Dread(dataset.get(), hdf5_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          "cannot read the dataset", location_name(location, path));
  return values;
}

std::vector<double> read_doubles(hid_t location, const std::string& path) {
  return read_all<double>(location, path);
}
std::vector<std::int64_t> read_integers(hid_t location, const std::string& path) {
  return read_all<std::int64_t>(location, path);
}

void select(hid_t space, const Slab& slab) {
  const std::vector<hsize_t> start(slab.start.begin(), slab.start.end());
  const std::vector<hsize_t> count(slab.count.begin(), slab.count.end());
  if (!start.empty())  // a scalar is always selected whole
    checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            "cannot select a part of the dataset", "");
}

template <class T>
void read_slab(hid_t dataset, const Slab& slab, T* out) {
  require_numbers(H5Type(H5Dget_type(dataset)).get(), location_name(dataset));
  const H5Space file_space(checked(H5Dget_space(dataset), "cannot tell the shape", location_name(dataset)));
  select(file_space.get(), slab);
  const auto memory_space = space_of(slab.count);
  checked(H5Dread(dataset, hdf5_type<T>(), memory_space.get(), file_space.get(), H5P_DEFAULT, out),
          "cannot read the dataset", location_name(dataset));
}

std::vector<double> read_doubles(hid_t dataset, const Slab& slab) {
  std::vector<double> values(static_cast<std::size_t>(elements_of(slab.count)));
  read_slab(dataset, slab, values.data());
  return values;
}

std::vector<std::string> read_texts(hid_t location, const std::string& path) {
  const auto dataset = open_dataset(location, path);
  const H5Space space(H5Dget_space(dataset.get()));
  const H5Type type(H5Dget_type(dataset.get()));
  return read_strings(type.get(), space.get(), location_name(location, path),
                      [&](hid_t memory_type, void* buffer) {
                        return H5Dread(dataset.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer);
                      });
}

std::string read_text(hid_t location, const std::string& path) {
  auto texts = read_texts(location, path);
  if (texts.size() != 1) throw input_error("is not one text", location_name(location, path), foreign_file);
  return texts[0];
}

#define MINISP_INSTANTIATE_ATTRIBUTE(T)                                  \
  template void write_attribute<T>(hid_t, const std::string&, const T&); \
  template T read_attribute<T>(hid_t, const std::string&);
MINISP_INSTANTIATE_ATTRIBUTE(double)
MINISP_INSTANTIATE_ATTRIBUTE(std::int64_t)
MINISP_INSTANTIATE_ATTRIBUTE(bool)
MINISP_INSTANTIATE_ATTRIBUTE(std::string)
MINISP_INSTANTIATE_ATTRIBUTE(std::vector<double>)
MINISP_INSTANTIATE_ATTRIBUTE(std::vector<std::int64_t>)
MINISP_INSTANTIATE_ATTRIBUTE(std::vector<std::string>)

#define MINISP_INSTANTIATE_DATASET(T)                                                                   \
  template H5Dataset create_dataset<T>(hid_t, const std::string&, const Shape&);                        \
  template void write_dataset<T>(hid_t, const std::string&, const Shape&, const T*, const std::string&, \
                                 const std::string&);                                                   \
  template void read_slab<T>(hid_t, const Slab&, T*);
MINISP_INSTANTIATE_DATASET(double)
MINISP_INSTANTIATE_DATASET(float)
MINISP_INSTANTIATE_DATASET(std::int64_t)
MINISP_INSTANTIATE_DATASET(std::int32_t)

}  // namespace minisp::io
