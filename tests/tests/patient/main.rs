//! Scenarios that mostly wait for protocol timers and for processes. Four of them run at once (`scripts/run-tests`).
//! Scenarios that keep the machine busy are programs of their own, beside this folder.

mod config;
mod console;
mod corpus;
mod ecmp;
mod examples;
mod fragments;
mod guardian;
mod guides;
mod hanging_files;
mod history;
mod ip6;
mod l2;
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
mod roles;
mod routes;
mod samples;
mod service;
mod show;
mod strangers;
mod urpf;
mod vlan;
mod vrf;
