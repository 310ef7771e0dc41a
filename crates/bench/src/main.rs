//! `volley-bench`: the tester. `volley bench` runs it.

#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    command::run(&command::Arguments::parse())
}
