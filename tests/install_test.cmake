# Installs to a folder of its own, builds the example against it and runs it, plain and packed.
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

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/prefix)
# Headers of embedding programs and no others.
file(GLOB folders RELATIVE ${work}/prefix/include/lpmm ${work}/prefix/include/lpmm/*/*)
list(FILTER folders EXCLUDE REGEX "\\.h$")
if(NOT folders STREQUAL "kernels/formats;kernels/rules;lpmm/base;lpmm/files;lpmm/memory")
  message(FATAL_ERROR "installed headers lie in ${folders}")
endif()
# The installed program finds its configurations by name, from anywhere.
if(EXISTS ${work}/prefix/bin/lpmm)
  execute_process(COMMAND ${work}/prefix/bin/lpmm plan resnet8_drawn --json WORKING_DIRECTORY /
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE error)
  if(NOT result EQUAL 0 OR NOT output MATCHES "peak_bytes")
    message(FATAL_ERROR "lpmm plan resnet8_drawn: ${output}${error}")
  endif()
endif()
file(COPY ${SOURCE_DIR}/experiments/example DESTINATION ${work})  # away from our headers
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${work}/example -B ${work}/build -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=${FLAGS} "-DCMAKE_PREFIX_PATH=${work}/prefix;${PREFIX_PATH}")
run(${CMAKE_COMMAND} --build ${work}/build)
foreach(program plain packed)
  run(${work}/build/${program})
  message(STATUS "${program}: ${output}")
  string(REGEX MATCH "accuracy ([0-9.]+)" matched "${output}")
  if(NOT matched OR CMAKE_MATCH_1 LESS 0.8)
    message(FATAL_ERROR "the ${program} loop does not learn: ${output}")
  endif()
endforeach()

file(READ ${SOURCE_DIR}/experiments/example/main.cpp text)
string(REGEX MATCHALL "\n" lines "${text}")
list(LENGTH lines count)
if(count GREATER 40)
  message(FATAL_ERROR "the example has ${count} lines; it may have 40")
endif()
