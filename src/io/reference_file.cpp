// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/reference_file.hpp"

#include "util/error.hpp"

namespace minisp::io {

namespace {

Error missing(const std::string& file, const std::string& entry) {
  return input_error("there is no " + entry + " in this file", file,
                     "Is it a reference file, and of this model?");
}

/// Adds the numeric attributes of the object at `path` as "prefix" + name.
void read_numeric_attributes(hid_t file, const std::string& path, const std::string& prefix,
                             std::map<std::string, std::vector<double>>& attributes) {
  const H5Handle<H5Oclose> object(
      checked(H5Oopen(file, path.c_str(), H5P_DEFAULT), "cannot open", location_name(file, path)));
  for (const auto& name : list_attributes(object.get()))
    if (is_numeric_attribute(object.get(), name))
      attributes[prefix + name] = read_attribute<std::vector<double>>(object.get(), name);
}

}  // namespace

const ReferenceArray& Reference::array(const std::string& path) const {
  const auto found = arrays.find(path);
  if (found == arrays.end()) throw missing(file, "array " + path);
  return found->second;
}

const std::vector<double>& Reference::list(const std::string& attribute) const {
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) throw missing(file, "attribute " + attribute);
  return found->second;
}

double Reference::scalar(const std::string& attribute) const {
  const auto& values = list(attribute);
  if (values.size() != 1) throw missing(file, "single number " + attribute);
  return values[0];
}

std::vector<std::string> Reference::names(const std::string& group) const {
  std::vector<std::string> found;
  const auto prefix = group + "/";
  for (auto entry = arrays.lower_bound(prefix); entry != arrays.end() && entry->first.rfind(prefix, 0) == 0;
       ++entry)
    found.push_back(entry->first.substr(prefix.size()));
  return found;
}

Reference read_reference(const std::string& path) {
  Reference reference;
  reference.file = path;
  const auto file = open_for_reading(path);
  for (const auto& name : list_datasets(file.get(), "/"))
    reference.arrays[name] = {shape_of(open_dataset(file.get(), name).get()), read_doubles(file.get(), name)};
  read_numeric_attributes(file.get(), "/", "", reference.attributes);
  for (const auto& group : list_groups(file.get(), "/"))
    read_numeric_attributes(file.get(), group, group + "@", reference.attributes);
  return reference;
}

}  // namespace minisp::io
