// Functions of a library that is loaded when a device is opened.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace lpmm::kernels::cuda {

template <class Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(file + " has no " + name);
}

}  // namespace lpmm::kernels::cuda
