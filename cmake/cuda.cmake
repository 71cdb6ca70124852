# The .cu files are compiled twice: for the GPU with nvcc, if nvcc is found (rooms.cmake), and for
# the host with the test double (tutti_cuda_double).

# Checks the version of nvcc and sets the default of CMAKE_CUDA_ARCHITECTURES. Call it between
# check_language(CUDA) and enable_language(CUDA).
function(tutti_cuda_toolkit)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE text)
  if(NOT text MATCHES "release ([0-9]+[.][0-9]+)")
    message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} is not nvcc, which tutti needs for GPUs. Set "
      "CMAKE_CUDA_COMPILER to nvcc of CUDA 11.8 or newer, or build without GPUs: -DTUTTI_CUDA=OFF")
  endif()
  if(CMAKE_MATCH_1 VERSION_LESS 11.8)
    message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_MATCH_1}; tutti needs 11.8 or "
      "newer. Load a newer CUDA, or set CMAKE_CUDA_COMPILER to its nvcc (in a new build folder), "
      "or build without GPUs: -DTUTTI_CUDA=OFF")
  endif()
  if(CMAKE_CUDA_ARCHITECTURES OR NOT "$ENV{CUDAARCHS}" STREQUAL "")
    return()
  endif()
  # Machine code for the GPUs that this nvcc knows: A100, A40 and RTX 30, L40 and RTX 40, H100 and
  # H200, B200, RTX 50. PTX of the newest for later GPUs.
  set(architectures 80 86 89 90)
  if(CMAKE_MATCH_1 VERSION_GREATER_EQUAL 12.8)
    list(APPEND architectures 100 120)
  endif()
  list(GET architectures -1 newest)
  list(TRANSFORM architectures APPEND -real)
  set(CMAKE_CUDA_ARCHITECTURES "${architectures};${newest}-virtual" CACHE STRING
      "GPU architectures to compile for")
endfunction()

# Options of nvcc. -fmad=false: no automatic contraction, so that a formula gives the same bits in
# every kernel and on the host, which has -ffp-contract=off; the inner loops call fmaf explicitly
# and lose no speed. Division, square root and subnormal numbers keep nvcc's defaults (IEEE 754).
function(tutti_cuda_compile target)
  target_link_libraries(${target} PRIVATE tutti_flags tutti_random123)
  target_compile_options(${target} PRIVATE -fmad=false -Xptxas=-v -Xcompiler=-Wall,-Wextra,-ffp-contract=off
                         $<$<BOOL:${TUTTI_WERROR}>:--Werror=all-warnings>
                         $<$<BOOL:${TUTTI_WERROR}>:-Xcompiler=-Werror>
                         $<$<BOOL:${TUTTI_SANITIZE}>:-Xcompiler=-fsanitize=address>)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
                        CUDA_EXTENSIONS OFF CUDA_VISIBILITY_PRESET hidden
                        CUDA_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/keep_ptxas.sh)
endfunction()

# The cuda engine as a library that the program opens when it looks for devices (cuda_plugin.h of
# src/host). It has its own copy of the rooms that cuda/ uses.
function(tutti_cuda_plugin)
  add_library(tutti_cuda MODULE)
  target_link_libraries(tutti_cuda PRIVATE ${TUTTI_CUDA_ROOMS} tutti_core_base tutti_core_formulas
                        tutti_core_front tutti_core_config tutti_core_config_yaml tutti_core_columns
                        tutti_core_model tutti_core_stats tutti_core_engine tutti_cuda_plan)
  target_link_options(tutti_cuda PRIVATE -Wl,--no-undefined)
  set_target_properties(tutti_cuda PROPERTIES LINKER_LANGUAGE C INSTALL_RPATH_USE_LINK_PATH ON)
endfunction()

# Hash of all headers in core/, for tt_engine_interface (core/engine/plugin.h).
function(tutti_interface_hash out)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/core/*/*.h ${CMAKE_SOURCE_DIR}/core/*/*.def)
  set(hashes "")
  foreach(header ${headers})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(SHA256 ${header} hash)
    string(APPEND hashes ${hash})
  endforeach()
  string(SHA256 hash "${hashes}")
  string(SUBSTRING ${hash} 0 12 hash)
  set(${out} ${hash} PARENT_SCOPE)
endfunction()

# The same sources as C++, with the double instead of CUDA's headers and libraries:
#   tutti_double       the double and cuda/common/device.cuh on it; uses only core/base
#   tutti_cuda_double  the rest of cuda/; a program links it together with the other rooms
# Needs enable_language(CXX). The language is a property of sources in one directory: call this
# function in another directory than the rooms.
function(tutti_cuda_double)
  file(GLOB layer CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cuda/common/device*.cu)
  file(GLOB cuda CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cuda/*/*.cu)
  file(GLOB double CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/double/runtime/*.cpp)
  set_source_files_properties(${cuda} PROPERTIES LANGUAGE CXX)
  list(REMOVE_ITEM cuda ${layer})

  add_library(tutti_double STATIC ${double} ${layer})
  target_compile_definitions(tutti_double PUBLIC TT_CUDA_DOUBLE)
  target_include_directories(tutti_double BEFORE PUBLIC ${CMAKE_SOURCE_DIR}/tests/double/runtime/include)
  target_include_directories(tutti_double PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_features(tutti_double PUBLIC cxx_std_17)
  # Fibers jump between stacks, which fortified longjmp reports as an attack; nvcc's pragmas are
  # unknown to the host compiler.
  target_compile_options(tutti_double PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-U_FORTIFY_SOURCE
                         -Wno-unknown-pragmas>)
  # fmaf as an instruction of this processor instead of a call; the bits are the same.
  include(CheckCXXSourceRuns)
  check_cxx_source_runs("int main() { return !__builtin_cpu_supports(\"fma\"); }"
                        TUTTI_HOST_HAS_FMA)
  if(TUTTI_HOST_HAS_FMA)
    target_compile_options(tutti_double PUBLIC $<$<COMPILE_LANGUAGE:CXX>:-mfma>)
  endif()
  # All kernels spend much of their time in it, which the rest of the sanitized tests does not.
  target_compile_options(tutti_double PRIVATE $<$<BOOL:${TUTTI_SANITIZE}>:-O1>)
  target_link_libraries(tutti_double PUBLIC tutti_flags tutti_random123)

  if(cuda)
    add_library(tutti_cuda_double OBJECT ${cuda})
    target_link_libraries(tutti_cuda_double PUBLIC tutti_double ${CMAKE_DL_LIBS})
  endif()
endfunction()
