// The library lies beside the crate. The build.rs of a program that depends on it learns where: what "lib" says below.
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
