# Third-party libraries. All are linked into the executable (headers or static archives), so that one
# file runs on any x86-64 Linux of the same or a later C library. tools/setup.sh installs them.
find_package(Threads REQUIRED)

find_package(nlohmann_json 3.10 REQUIRED)
find_package(Boost 1.81 REQUIRED CONFIG)

add_library(quire_pcre2 INTERFACE)
find_path(QUIRE_PCRE2_INCLUDE pcre2.h REQUIRED)
find_library(QUIRE_PCRE2_LIBRARY NAMES libpcre2-8.a pcre2-8 REQUIRED)
target_include_directories(quire_pcre2 INTERFACE ${QUIRE_PCRE2_INCLUDE})
target_link_libraries(quire_pcre2 INTERFACE ${QUIRE_PCRE2_LIBRARY})
target_compile_definitions(quire_pcre2 INTERFACE PCRE2_CODE_UNIT_WIDTH=8)

add_library(quire_utf8proc INTERFACE)
find_path(QUIRE_UTF8PROC_INCLUDE utf8proc.h REQUIRED)
find_library(QUIRE_UTF8PROC_LIBRARY NAMES libutf8proc.a utf8proc REQUIRED)
target_include_directories(quire_utf8proc INTERFACE ${QUIRE_UTF8PROC_INCLUDE})
target_link_libraries(quire_utf8proc INTERFACE ${QUIRE_UTF8PROC_LIBRARY})

add_library(quire_yaml INTERFACE)
find_path(QUIRE_YAML_INCLUDE yaml-cpp/yaml.h REQUIRED)
find_library(QUIRE_YAML_LIBRARY NAMES libyaml-cpp.a yaml-cpp REQUIRED)
target_include_directories(quire_yaml INTERFACE ${QUIRE_YAML_INCLUDE})
target_link_libraries(quire_yaml INTERFACE ${QUIRE_YAML_LIBRARY})

# Line editing. Debian's archive of libedit needs terminfo and a few functions of libbsd. Only those are linked: the rest of
# libbsd would replace functions of the C library.
add_library(quire_libedit INTERFACE)
find_path(QUIRE_LIBEDIT_INCLUDE histedit.h REQUIRED)
find_library(QUIRE_LIBEDIT_LIBRARY NAMES libedit.a edit REQUIRED)
find_library(QUIRE_TINFO_LIBRARY NAMES libtinfo.a libncursesw.a tinfo ncursesw REQUIRED)
find_library(QUIRE_BSD_LIBRARY NAMES libbsd.a)
target_include_directories(quire_libedit INTERFACE ${QUIRE_LIBEDIT_INCLUDE})
target_link_libraries(quire_libedit INTERFACE ${QUIRE_LIBEDIT_LIBRARY} ${QUIRE_TINFO_LIBRARY})
if(QUIRE_BSD_LIBRARY)
  execute_process(COMMAND ${CMAKE_AR} t ${QUIRE_BSD_LIBRARY} OUTPUT_VARIABLE bsd_members)
  string(REGEX MATCHALL "[^\n]+" bsd_members "${bsd_members}")
  list(FILTER bsd_members INCLUDE REGEX "^(strlcpy|vis|unvis)\\.o$")
  set(bsd_directory ${CMAKE_BINARY_DIR}/libedit_bsd)
  file(MAKE_DIRECTORY ${bsd_directory})
  execute_process(COMMAND ${CMAKE_AR} x ${QUIRE_BSD_LIBRARY} ${bsd_members} WORKING_DIRECTORY ${bsd_directory}
    COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE ${bsd_directory}/libedit_bsd.a)
  execute_process(COMMAND ${CMAKE_AR} rcs libedit_bsd.a ${bsd_members} WORKING_DIRECTORY ${bsd_directory}
    COMMAND_ERROR_IS_FATAL ANY)
  target_link_libraries(quire_libedit INTERFACE ${bsd_directory}/libedit_bsd.a)
endif()

# TLS and hashes for downloads.
set(OPENSSL_USE_STATIC_LIBS TRUE)
find_package(OpenSSL 3.0 QUIET)
if(NOT OpenSSL_FOUND)
  set(OPENSSL_USE_STATIC_LIBS FALSE)
  unset(OPENSSL_CRYPTO_LIBRARY CACHE)
  unset(OPENSSL_SSL_LIBRARY CACHE)
  find_package(OpenSSL 3.0 REQUIRED)
endif()

find_path(QUIRE_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
find_path(QUIRE_RAPIDJSON_INCLUDE rapidjson/document.h REQUIRED)
find_path(QUIRE_XXHASH_INCLUDE xxhash.h REQUIRED)

# Which layer uses which library.
set(QUIRE_LIBS_base nlohmann_json::nlohmann_json Threads::Threads)
set(QUIRE_LIBS_text quire_pcre2 quire_utf8proc)
set(QUIRE_LIBS_lora quire_pcre2)
set(QUIRE_LIBS_hub Boost::headers OpenSSL::SSL OpenSSL::Crypto)
set(QUIRE_LIBS_server Boost::headers)
set(QUIRE_LIBS_cli quire_yaml quire_utf8proc quire_libedit)
