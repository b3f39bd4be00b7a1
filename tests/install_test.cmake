# Installs packed memory alone to a folder of its own, then everything; builds the examples against both and runs them.
# Needs -DBUILD_DIR, -DSOURCE_DIR, -DCOMPILER, -DGENERATOR; -DFLAGS and -DPREFIX_PATH may be empty.
set(work ${BUILD_DIR}/install_test)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
function(configure prefix source folder)
  run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${source} -B ${folder} -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${COMPILER}
      -DCMAKE_CXX_FLAGS=${FLAGS} "-DCMAKE_PREFIX_PATH=${prefix};${PREFIX_PATH}" ${ARGN})
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/packed --component packed)
# Headers of embedding programs and no others, below <lpmm/...>.
file(GLOB folders RELATIVE ${work}/packed/include ${work}/packed/include/* ${work}/packed/include/lpmm/* ${work}/packed/include/lpmm/*/*)
list(FILTER folders EXCLUDE REGEX "\\.h$")
if(NOT folders STREQUAL "lpmm;lpmm/base;lpmm/kernels;lpmm/kernels/cuda;lpmm/kernels/formats;lpmm/kernels/rules;lpmm/kernels/threads;lpmm/memory;lpmm/memory/slots;lpmm/ranks")
  message(FATAL_ERROR "installed headers lie in ${folders}")
endif()

file(COPY ${SOURCE_DIR}/experiments/example DESTINATION ${work})  # away from our headers
file(WRITE ${work}/example/kernels/packed_device.h "#error \"a program's own folder hides a header of lpmm\"\n")
file(WRITE ${work}/example/whole/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(whole LANGUAGES CXX)
find_package(lpmm REQUIRED COMPONENTS lpmm)
add_executable(whole main.cpp)
target_link_libraries(whole PRIVATE lpmm::lpmm)
")
file(WRITE ${work}/example/whole/main.cpp "#include <lpmm/kernels/device.h>
#include <lpmm/kernels/cuda/gpu/gpu.h>
#include <lpmm/memory/packed_vector.h>
#include <vector>
int main() {
  if (lpmm::kernels::gpu_is_there()) (void)lpmm::kernels::make_packed_gpu(1, {.number = 0});
  const auto device = lpmm::make_device(\"cpu\", 1);
  lpmm::PackedVector w(std::vector<float>(200), \"lpmm\", {.learning_rate = 0.1}, *device);
  w.step(std::vector<float>(200, 1.0F));
  return std::vector<float>(w)[0] < 0 ? 0 : 1;
}
")
configure(${work}/packed ${work}/example ${work}/build "-DCMAKE_CXX_FLAGS=${FLAGS} -I${work}/example")
run(${CMAKE_COMMAND} --build ${work}/build)
foreach(program plain packed)
  run(${work}/build/${program})
  message(STATUS "${program}: ${output}")
  string(REGEX MATCH "accuracy ([0-9.]+)" matched "${output}")
  if(NOT matched OR CMAKE_MATCH_1 LESS 0.8)
    message(FATAL_ERROR "the ${program} loop does not learn: ${output}")
  endif()
endforeach()
# A loop that stops half-way and goes on ends with the same file.
run(${work}/build/mlp ${work}/whole.safetensors)
message(STATUS "mlp: ${output}")
string(REGEX MATCH "step 600: accuracy ([0-9.]+)" matched "${output}")
if(NOT matched OR CMAKE_MATCH_1 LESS 0.95)
  message(FATAL_ERROR "the network does not learn: ${output}")
endif()
run(${work}/build/mlp ${work}/parts.safetensors 250)
run(${work}/build/mlp ${work}/parts.safetensors)
run(${CMAKE_COMMAND} -E compare_files ${work}/whole.safetensors ${work}/parts.safetensors)
# It brings nothing but itself and what every C++ program has.
if(NOT FLAGS)
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${work}/build/packed RESOLVED_DEPENDENCIES_VAR libraries)
  list(FILTER libraries EXCLUDE REGEX "/(ld-linux[^/]*|lib(c|m|stdc\\+\\+|gcc_s))\\.so[.0-9]*$")
  if(libraries)
    message(FATAL_ERROR "the example needs ${libraries}")
  endif()
  file(STRINGS ${work}/build/packed names REGEX "_ZNK?3fmt[0-9]+v[0-9]" LIMIT_COUNT 1)
  if(names)
    message(FATAL_ERROR "the example has functions of fmt, which may be another than the program's own: ${names}")
  endif()
  file(SIZE ${work}/build/packed bytes)
  message(STATUS "the packed example: ${bytes} bytes")
endif()
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} ${work}/packed/lib/pkgconfig)
  run(${PKG_CONFIG} --cflags --libs lpmm-packed)
  string(STRIP "${output}" options)
  separate_arguments(options UNIX_COMMAND "${options} ${FLAGS}")
  run(${COMPILER} -std=c++20 ${work}/example/main.cpp ${options} -o ${work}/by_pkg_config)
  run(${work}/by_pkg_config)
  # Two ranks of a program end a step with the weights of one.
  file(WRITE ${work}/ranks.cpp "#include <lpmm/kernels/cpu_packed.h>
#include <lpmm/memory/model_memory.h>
#include <lpmm/ranks/ranks.h>
#include <thread>
using Floats = std::vector<float>;
Floats train(lpmm::Ranks& ranks) {
  lpmm::CpuPackedDevice device(1);
  lpmm::OptimizerConfig adamw{.rule = \"adamw\"};
  lpmm::ModelMemory memory({{\"w\", {300, 30}}}, lpmm::make_policy(\"lpmm-min\", adamw), adamw, 1, 2, device, 2, ranks);
  lpmm::Step step = memory.begin_step();
  for (int k = step.share().first, n = 0; n < step.share().count; ++k, ++n) step.fold(0, 0, Floats(9000, 1.0F + k), k);
  std::move(step).commit();
  Floats weights(9000);
  memory.decode(0, 0, weights);
  return weights;
}
int main() {
  const auto ranks = lpmm::linked_ranks(2, 60);
  Floats second;
  std::thread other([&] { second = train(*ranks[1]); });
  const Floats first = train(*ranks[0]);
  other.join();
  return first == second && first == train(lpmm::alone()) && first != Floats(9000) ? 0 : 1;
}
")
  run(${COMPILER} -std=c++20 ${work}/ranks.cpp ${options} -o ${work}/ranks)
  run(${work}/ranks)
endif()
# The error names the component that is not installed.
execute_process(COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${work}/example/whole -B ${work}/not_here
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${work}/packed RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0 OR NOT output MATCHES "without the component lpmm")
  message(FATAL_ERROR "a library that is not installed: ${output}")
endif()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/prefix)
# The installed program finds its configurations by name, from anywhere.
if(EXISTS ${work}/prefix/bin/lpmm)
  execute_process(COMMAND ${work}/prefix/bin/lpmm plan resnet8_drawn --json WORKING_DIRECTORY /
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE error)
  if(NOT result EQUAL 0 OR NOT output MATCHES "peak_bytes")
    message(FATAL_ERROR "lpmm plan resnet8_drawn: ${output}${error}")
  endif()
endif()
configure(${work}/prefix ${work}/example/whole ${work}/whole_build)
run(${CMAKE_COMMAND} --build ${work}/whole_build)
run(${work}/whole_build/whole)

file(READ ${SOURCE_DIR}/experiments/example/main.cpp text)
string(REGEX MATCHALL "\n" lines "${text}")
list(LENGTH lines count)
if(count GREATER 40)
  message(FATAL_ERROR "the example has ${count} lines; it may have 40")
endif()

# Packed memory as a part of another project that names no build type, as a shared library, without whatever networks need.
file(WRITE ${work}/inside/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(inside LANGUAGES CXX)
set(BUILD_SHARED_LIBS ON)
set(LPMM_PACKED_ONLY ON)
foreach(package dnnl ZLIB Eigen3 OpenMP)
  set(CMAKE_DISABLE_FIND_PACKAGE_\${package} ON)
endforeach()
add_subdirectory(${SOURCE_DIR} lpmm)
add_executable(mlp ${SOURCE_DIR}/experiments/example/mlp.cpp)
target_link_libraries(mlp PRIVATE lpmm::packed)
")
configure(${work}/nothing ${work}/inside ${work}/inside_build -DCMAKE_BUILD_TYPE= -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
file(READ ${work}/inside_build/compile_commands.json commands)
if(NOT commands MATCHES "-O3[^\n]*avx2.cpp")
  message(FATAL_ERROR "the loops are not optimized where a project names no build type")
endif()

# Everything as a part of another project: its headers too are <lpmm/...>, and nothing of ours hides the project's folders.
file(WRITE ${work}/inside_whole/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(inside_whole LANGUAGES CXX)
add_subdirectory(${SOURCE_DIR} lpmm)
add_library(whole OBJECT ${work}/example/whole/main.cpp)
target_include_directories(whole PRIVATE ${work}/example)
target_link_libraries(whole PRIVATE lpmm::lpmm)
")
configure(${work}/nothing ${work}/inside_whole ${work}/inside_whole_build)
if(GENERATOR MATCHES "Ninja")  # others build the whole library first
  run(${CMAKE_COMMAND} --build ${work}/inside_whole_build --target whole)
endif()
