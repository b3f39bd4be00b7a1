// The version of the library; CMakeLists.txt reads it here.
#pragma once

#define LPMM_VERSION "0.1.0"
