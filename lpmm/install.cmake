# cmake --install: the libraries, the headers of programs that embed them, and the program;
# find_package(lpmm) gives lpmm::lpmm.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(LPMM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lpmm)
set(LPMM_HEADER_DIR ${CMAKE_INSTALL_INCLUDEDIR}/lpmm)  # holds lpmm/ and kernels/

target_compile_features(lpmm_kernels PUBLIC cxx_std_20)  # our headers need it of who includes them
set_target_properties(lpmm_core PROPERTIES EXPORT_NAME lpmm)
set_target_properties(lpmm_kernels PROPERTIES EXPORT_NAME kernels)
set_target_properties(lpmm_models PROPERTIES EXPORT_NAME models)  # lpmm_core asks it for the list of families
install(TARGETS lpmm_core lpmm_kernels lpmm_models EXPORT lpmm-targets INCLUDES DESTINATION ${LPMM_HEADER_DIR})
install(EXPORT lpmm-targets NAMESPACE lpmm:: DESTINATION ${LPMM_PACKAGE_DIR})

# What an embedding program includes, and all that this includes.
set(headers lpmm/memory/packed_vector.h lpmm/memory/model_memory.h lpmm/base/error.h)
set(at 0)
list(LENGTH headers count)
while(at LESS count)
  list(GET headers ${at} header)
  file(STRINGS ${header} lines REGEX "^#include \"")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" included "${line}")
    list(APPEND headers ${included})
  endforeach()
  list(REMOVE_DUPLICATES headers)
  list(LENGTH headers count)
  math(EXPR at "${at} + 1")
endwhile()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${LPMM_HEADER_DIR}/${folder})
endforeach()

if(TARGET lpmm)
  install(TARGETS lpmm)
  # experiments/commands/shipped_configs.cpp looks there, from the program's own place.
  install(DIRECTORY experiments/configs DESTINATION share/lpmm FILES_MATCHING PATTERN "*.toml")
endif()

# A static library hands on what it was linked with: the package looks for the same.
set(LPMM_DEPENDENCIES Threads)
set(links "")
foreach(library lpmm_core lpmm_kernels lpmm_models)
  get_target_property(of_library ${library} LINK_LIBRARIES)
  list(APPEND links ${of_library})
endforeach()
foreach(pair fmt=fmt::fmt hwy=hwy::hwy dnnl=DNNL::dnnl OpenMP=OpenMP::OpenMP_CXX Eigen3=Eigen3::Eigen
        nlohmann_json=nlohmann_json::nlohmann_json ZLIB=ZLIB::ZLIB CUDAToolkit=CUDA::cudart_static)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 1 target)
  if(target IN_LIST links)
    list(GET pair 0 package)
    list(APPEND LPMM_DEPENDENCIES ${package})
  endif()
endforeach()
configure_package_config_file(lpmm/lpmm-config.cmake.in ${CMAKE_BINARY_DIR}/lpmm-config.cmake
                              INSTALL_DESTINATION ${LPMM_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lpmm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lpmm-config.cmake ${CMAKE_BINARY_DIR}/lpmm-config-version.cmake
        DESTINATION ${LPMM_PACKAGE_DIR})
