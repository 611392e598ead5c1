// The library is in the directory `lib` of the crate. "cargo:lib" tells the build.rs of a dependent program where that is.
use std::env;
use std::path::PathBuf;

fn main() {
    let directory = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("lib");
    let shown = directory.display();
    println!("cargo:rustc-link-search=native={shown}");
    println!("cargo:rustc-link-lib=dylib=LIBRARY");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{shown}");
    println!("cargo:lib={shown}");
    println!("cargo:rerun-if-changed=build.rs");
}
