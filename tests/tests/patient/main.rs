//! Scenarios that mostly wait: for timers of protocols, for processes to start. Four of them run at once (`scripts/run-tests`). Those that
//! need the machine are beside this folder, each a program of its own.

mod config;
mod console;
mod corpus;
mod ecmp;
mod examples;
mod fragments;
mod guardian;
mod guides;
mod history;
mod ip6;
mod lifecycle;
mod link;
mod logging;
mod metrics;
mod monitor;
mod neighbor;
mod options;
mod pcap;
mod ping;
mod pmtu;
mod policer;
mod redirect;
mod routes;
mod service;
mod show;
mod strangers;
mod urpf;
mod vlan;
mod vrf;
