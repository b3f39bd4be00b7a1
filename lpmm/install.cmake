# The headers of programs that embed packed memory; then cmake --install: lpmm::packed with them (component packed), and
# everything else. Embedding programs include these headers, and those that they include, as <lpmm/...>: no folder of
# the program's hides them.
set(headers lpmm/memory/packed_vector.h lpmm/memory/model_memory.h lpmm/ranks/ranks.h lpmm/base/error.h lpmm/version.h)
if(NOT LPMM_PACKED_ONLY)
  list(APPEND headers kernels/device.h kernels/cuda/gpu/gpu.h)
endif()
set(at 0)
list(LENGTH headers count)
set(written "")
while(at LESS count)
  list(GET headers ${at} header)
  file(STRINGS ${header} lines REGEX "^#include \"")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" included "${line}")
    list(APPEND headers ${included})
  endforeach()
  file(READ ${header} text)
  string(REGEX REPLACE "#include \"(lpmm/)?([^\"]*)\"" "#include <lpmm/\\2>" text "${text}")
  string(REGEX REPLACE "^lpmm/" "" header ${header})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/include/lpmm/${header} CONTENT "${text}" @ONLY)  # where it changed
  list(APPEND written ${CMAKE_CURRENT_BINARY_DIR}/include/lpmm/${header})
  list(REMOVE_DUPLICATES headers)
  list(LENGTH headers count)
  math(EXPR at "${at} + 1")
endwhile()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
file(GLOB_RECURSE stale ${CMAKE_CURRENT_BINARY_DIR}/include/*.h)
list(REMOVE_ITEM stale ${written})
if(stale)
  file(REMOVE ${stale})
endif()
if(NOT LPMM_INSTALL)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(LPMM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lpmm)
set_target_properties(lpmm_packed PROPERTIES EXPORT_NAME packed VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(lpmm_packed PUBLIC cxx_std_20)  # our headers need it of who includes them
target_include_directories(lpmm_packed PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS lpmm_packed EXPORT lpmm-packed-targets COMPONENT packed)
install(EXPORT lpmm-packed-targets NAMESPACE lpmm:: DESTINATION ${LPMM_PACKAGE_DIR} COMPONENT packed)
install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/include/lpmm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT packed)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT packed)

# A static library hands on what it was linked with: the package looks for the same.
set(LPMM_DEPENDENCIES "")
if(NOT LPMM_PACKED_ONLY)
  set_target_properties(lpmm_core PROPERTIES EXPORT_NAME lpmm)
  set_target_properties(lpmm_kernels PROPERTIES EXPORT_NAME kernels)
  set_target_properties(lpmm_models PROPERTIES EXPORT_NAME models)
  set_target_properties(lpmm_core lpmm_kernels lpmm_models PROPERTIES VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  install(TARGETS lpmm_core lpmm_kernels lpmm_models EXPORT lpmm-targets)
  install(EXPORT lpmm-targets NAMESPACE lpmm:: DESTINATION ${LPMM_PACKAGE_DIR})
  install(TARGETS lpmm)
  if(TARGET lpmm_mpi)
    install(TARGETS lpmm_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
  set_target_properties(lpmm PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  # experiments/commands/shipped_configs.cpp looks there, from the program's own place.
  install(DIRECTORY experiments/configs DESTINATION share/lpmm/experiments FILES_MATCHING PATTERN "*.toml")
  foreach(page README.md experiments/README.md experiments/zoo/README.md experiments/optimizers/README.md
          lpmm/README.md lpmm/EMBEDDING.md lpmm/RECIPES.md lpmm/memory/README.md)
    get_filename_component(folder ${page} DIRECTORY)
    install(FILES ${page} DESTINATION share/lpmm/${folder})
  endforeach()
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
endif()
configure_package_config_file(lpmm/lpmm-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/lpmm-config.cmake
                              INSTALL_DESTINATION ${LPMM_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/lpmm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lpmm-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/lpmm-config-version.cmake
        DESTINATION ${LPMM_PACKAGE_DIR} COMPONENT packed)

# For programs that are not built by CMake: pkg-config --cflags --libs lpmm-packed
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/lpmm-packed.pc @ONLY CONTENT "prefix=\${pcfiledir}/@up@
Name: lpmm-packed
Description: Packed memory of models: parameters, gradients and optimizer states in low precision
Version: @PROJECT_VERSION@
Cflags: -I\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L\${prefix}/@CMAKE_INSTALL_LIBDIR@ -llpmm_packed -pthread
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lpmm-packed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT packed)
