# SPDX-License-Identifier: Apache-2.0

# Not tried: this port for vcpkg was written from its documentation.

# The file farcall-0.1.0.tar.gz.sha256 is beside the tarball; vcpkg wants SHA512, and prints the value that it expected.
vcpkg_download_distfile(archive URLS "https://farcall.example/releases/farcall-${VERSION}.tar.gz"
                        FILENAME "farcall-${VERSION}.tar.gz" SHA512 0)
vcpkg_extract_source_archive(source ARCHIVE "${archive}")
vcpkg_cmake_configure(SOURCE_PATH "${source}" OPTIONS -DFARCALL_LIBRARY_ONLY=ON -DFARCALL_BUILD_SHARED=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME farcall CONFIG_PATH lib/cmake/farcall-0.1)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
