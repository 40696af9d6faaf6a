//! The I/O load engine: patterns, arrivals, engines, data check.
//!
//! A cell enters as a [`spec::CellSpec`] and leaves as a [`sample::Sample`]. In between,
//! [`trial::start`] starts one [`worker::Worker`] a thread, each over an [`engine::Engine`]:
//! [`psync`] and [`uring`] drive the kernel, [`sim`] a model on a virtual clock.

pub mod address;
pub mod arrival;
pub mod bounds;
pub mod budget;
pub mod buffers;
pub mod cgroup;
pub mod choice;
pub mod content;
pub mod coordinator;
pub mod data;
pub mod engine;
pub mod errno;
pub mod group_watch;
pub mod ledger;
pub mod listed;
pub mod live;
pub mod procfs;
pub mod psync;
pub mod rng;
pub mod running;
pub mod sample;
pub mod sim;
pub mod sizes;
pub mod spec;
pub mod target;
pub mod throttle;
pub mod trial;
pub mod uring;
pub mod verify;
pub mod watchdog;
pub mod worker;
