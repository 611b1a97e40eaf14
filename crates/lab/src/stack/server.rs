//! The server of a stack: caches, prefetcher, writeback, SSD tier; and the protocol in front of it.
use super::layout::{copies, FIRST_BYTE};
use super::{policy, Builder};
use crate::component::{CacheModel, ComponentId};
use crate::components::drive::Drive;
use crate::components::network::Network;
use crate::components::pages::{prefetch_parameters, Pages, Tier};
use crate::components::placement::Placement;
use crate::components::protocol::{Protocol, Rules};
use crate::components::server::{self, Below, Server};
use crate::components::simple_drive::SimpleDrive;
use crate::components::slowness::Slowness;
use crate::components::writeback::{Limits, Writeback};
use crate::models::cache::PolicyKind;
use crate::models::prefetch::Prefetcher;
use crate::request::Level;
use crate::sim::stream;

impl Builder<'_> {
    pub(super) fn server(&mut self, below: Below) -> ComponentId {
        let section = self.section("server").clone();
        let costs = server::Costs {
            syscall_ns: self.section("host").whole("syscall"),
            request_ns: section.whole("request"),
            per_mib_ns: section.whole("per_mib"),
            write_per_mib_ns: section.whole("write_per_mib"),
            max_io_bytes: section.whole("max_io") as u32,
        };
        let mut sizes = self.layout.sizes_bytes.clone();
        if copies(self.plan) {
            sizes.extend(self.layout.sizes_bytes.iter());
        }
        let mut rng = stream(self.seed, "placement");
        let misplaced = section.whole("misplaced").min(sizes.len() as u64) as usize;
        let placement =
            Placement::new(&sizes, FIRST_BYTE, section.whole("piece"), &mut rng).misplacing(misplaced);
        let tier = self.tier();
        let pages = self.pages(tier);
        let writeback = self.plan.scenario.has("writeback").then(|| self.writeback());
        let threads = section.whole("threads") as usize;
        let scenario = &self.plan.scenario;
        let journal = match scenario.has("volume") {
            true => self.section("volume").text("name").into(),
            false => scenario.drive_names()[0].clone(),
        };
        let server = Server::new(below, costs, threads, placement, pages, writeback).held_up_by(
            self.plan.commits.clone(),
            &journal,
            self.plan.far.clone(),
        );
        self.sim.add(Box::new(server))
    }

    fn writeback(&self) -> Writeback {
        let section = self.section("writeback");
        let limits = Limits {
            background_bytes: section.whole("background"),
            limit_bytes: section.whole("limit"),
            age_ns: section.whole("age"),
            interval_ns: section.whole("interval"),
            depth: section.whole("depth") as usize,
            cluster_bytes: section.whole("cluster"),
        };
        Writeback::new(self.section("cache").whole("page"), limits)
    }

    fn tier(&mut self) -> Option<Tier> {
        if !self.plan.scenario.has("ssd_tier") {
            return None;
        }
        let section = self.section("ssd_tier").clone();
        let device = self.layout.cast.devices.len() - 1;
        let name = self.layout.cast.devices[device].clone();
        let chunk_bytes = section.whole("chunk");
        // An address keeps its place on the tier: as large as the volume, of which it holds a part.
        let model = SimpleDrive::tier(&section, self.layout.volume_bytes, stream(self.seed, &name));
        let slowness = Slowness::new(Vec::new(), Vec::new(), stream(self.seed, "tier slowness"));
        let drive = Drive::new(&name, Box::new(model), slowness, 1023, None);
        let id = self.sim.add(Box::new(drive));
        let chunks = (section.whole("size") / chunk_bytes).max(2) as usize;
        let mut held = policy(PolicyKind::Lru, chunks);
        if section.flag("filled") {
            let all = self.layout.volume_bytes / chunk_bytes;
            (0..all.min(chunks as u64)).for_each(|chunk| {
                held.insert(chunk);
            });
        }
        Some(Tier {
            model: Box::new(held),
            below: Below {
                id,
                level: Level::Block,
                device: device as u16,
            },
            chunk_bytes,
        })
    }

    fn pages(&mut self, tier: Option<Tier>) -> Option<Pages> {
        if !self.plan.scenario.has("cache") {
            return None;
        }
        let cache = self.section("cache");
        let page_bytes = cache.whole("page").next_power_of_two();
        let pages = (cache.whole("size") / page_bytes).max(2) as usize;
        let kind = PolicyKind::from_name(cache.text("policy")).unwrap_or(PolicyKind::Lru);
        let prefetcher = self.plan.scenario.has("prefetch").then(|| {
            let parameters = prefetch_parameters(self.section("prefetch"));
            Prefetcher::new(parameters).expect("the keys have the ranges of the model")
        });
        let spinning = self.section("device").text("kind") == "hdd";
        Some(Pages::new(
            Box::new(policy(kind, pages)),
            page_bytes,
            prefetcher,
            tier,
            spinning,
        ))
    }

    pub(super) fn protocol(&mut self, server: ComponentId) -> ComponentId {
        if !self.plan.scenario.has("protocol") {
            return server;
        }
        let rules = Rules::new(self.section("protocol"));
        let networks = (self.network("network forth"), self.network("network back"));
        let thread = self.layout.server_thread;
        let part = Protocol::new(rules, server, networks, thread, self.layout.sizes_bytes.clone());
        self.sim.add(Box::new(part))
    }

    fn network(&self, name: &str) -> Network {
        let section = self.section("network");
        Network::new(
            section.whole("latency"),
            section.whole("bandwidth"),
            section.real("loss"),
            section.whole("retransmit"),
            self.plan.losses.clone(),
            stream(self.seed, name),
        )
    }
}
