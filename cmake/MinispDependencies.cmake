# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Everything that miniSP links, found where it is installed; nothing is downloaded.

find_package(MPI REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)

set(HDF5_PREFER_PARALLEL ON)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "HDF5 at ${HDF5_INCLUDE_DIRS} has no MPI support. Install a parallel build "
    "(Debian: libhdf5-mpi-dev, Spack: hdf5+mpi) or point HDF5_ROOT to one.")
endif()
add_library(minisp_hdf5 INTERFACE)
target_include_directories(minisp_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
target_link_libraries(minisp_hdf5 INTERFACE ${HDF5_C_LIBRARIES} MPI::MPI_C)

find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)

# Kokkos and Kokkos Kernels. Debian 12's packages (3.4.01, from Trilinos) export Kokkos::kokkos with a
# wrong include folder, so their plain library targets are linked there.
find_package(Kokkos REQUIRED)
# Asked before Kokkos Kernels is looked for: the system's may be found, and its targets with it, although
# Kokkos is another one.
if(TARGET trilinos_kokkoscore AND Kokkos_VERSION VERSION_LESS 4)
  set(minisp_kokkos_of_debian_12 ON)
endif()
find_package(KokkosKernels QUIET)
add_library(minisp_kokkos INTERFACE)
if(minisp_kokkos_of_debian_12)
  target_include_directories(minisp_kokkos SYSTEM INTERFACE ${Kokkos_INCLUDE_DIRS})
  target_link_libraries(minisp_kokkos INTERFACE trilinos_kokkoscore)
  if(TARGET trilinos_kokkoskernels)
    target_link_libraries(minisp_kokkos INTERFACE trilinos_kokkoskernels)
    set(MINISP_HAVE_KOKKOS_KERNELS ON)
  endif()
else()
  target_link_libraries(minisp_kokkos INTERFACE Kokkos::kokkos)
  if(TARGET Kokkos::kokkoskernels)
    target_link_libraries(minisp_kokkos INTERFACE Kokkos::kokkoskernels)
    set(MINISP_HAVE_KOKKOS_KERNELS ON)
  endif()
endif()

# Kokkos with CUDA: matrix products go to cuBLAS directly, so that Kokkos Kernels is not needed.
if(Kokkos_ENABLE_CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(MINISP_HAVE_CUBLAS ON)
  # fmt before 11 takes nvcc for a compiler without constexpr, and then not even its own headers compile.
  target_compile_definitions(minisp_options INTERFACE FMT_USE_CONSTEXPR=1)
endif()

# BLAS is called by Kokkos Kernels; it is named here to ask it which kernel it chose, and it serves the
# matrix products alone where Kokkos Kernels is missing.
find_package(BLAS REQUIRED)
find_path(MINISP_CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas)

if(MINISP_ENABLE_ONEDNN AND NOT Kokkos_ENABLE_CUDA)
  # Found by name: Debian's package file stops CMake where OpenCL's headers are missing, which nothing here uses.
  find_path(MINISP_ONEDNN_INCLUDE_DIR dnnl.h)
  find_library(MINISP_ONEDNN_LIBRARY dnnl)
  if(MINISP_ONEDNN_INCLUDE_DIR AND MINISP_ONEDNN_LIBRARY)
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    add_library(minisp_onednn INTERFACE)
    target_include_directories(minisp_onednn SYSTEM INTERFACE "${MINISP_ONEDNN_INCLUDE_DIR}")
    target_link_libraries(minisp_onednn INTERFACE "${MINISP_ONEDNN_LIBRARY}" OpenMP::OpenMP_CXX)
    set(MINISP_HAVE_ONEDNN ON)
  else()
    message(STATUS "oneDNN not found: fp32 matrix products go to BLAS (Debian: libdnnl-dev, Spack: onednn)")
  endif()
endif()
