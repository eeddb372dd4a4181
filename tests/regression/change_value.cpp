// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// change_value FILE DATASET INDEX DELTA: adds DELTA, times the 2-norm of the dataset, to one of its elements.
#include "io/hdf5.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>

int main(int argc, char** argv) try {
  using namespace minisp::io;
  if (argc != 5) return std::fprintf(stderr, "change_value FILE DATASET INDEX DELTA\n"), 2;
  const auto file = open_for_appending(argv[1]);
  const auto dataset = open_dataset(file.get(), argv[2]);
  auto values = read_doubles(file.get(), argv[2]);
  double square = 0;
  for (const double value : values) square += value * value;
  values.at(std::strtoul(argv[3], nullptr, 10)) += std::atof(argv[4]) * std::sqrt(square);
  checked(H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          "cannot write", argv[1]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "change_value: %s\n", error.what());
  return 2;
}
