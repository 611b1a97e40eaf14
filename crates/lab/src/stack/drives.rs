//! The drives of a stack, their volume and their interrupts.
use super::layout::{check_geometry, geometry};
use super::Builder;
use crate::component::{ComponentId, DriveModel};
use crate::components::drive::Drive;
use crate::components::fitted_drive::FittedDrive;
use crate::components::interrupts::{self, Interrupts};
use crate::components::server::Below;
use crate::components::simple_drive::SimpleDrive;
use crate::components::slowness::Slowness;
use crate::components::volume::Volume;
use crate::error::LabError;
use crate::faults::Plan;
use crate::models::hdd::{Hdd, HddParameters};
use crate::models::ssd::{Ssd, SsdParameters};
use crate::models::ParameterError;
use crate::request::Level;
use crate::sim::stream;

impl Builder<'_> {
    pub(super) fn interrupts(&mut self) -> Option<ComponentId> {
        let part = make_interrupts(self.plan, self.seed)?;
        let id = self.sim.add(Box::new(part));
        self.sim.wake(id, 0);
        Some(id)
    }

    pub(super) fn drives(&mut self, interrupts: Option<ComponentId>) -> Result<Vec<ComponentId>, LabError> {
        let device = self.section("device").clone();
        let names = self.plan.scenario.drive_names();
        let mut ids = Vec::new();
        for (n, name) in names.iter().enumerate() {
            let model = drive_model(self.plan, self.layout.drive_bytes, self.seed, name)?;
            let own = |at: &usize| *at == n;
            let slow = self
                .plan
                .slow
                .iter()
                .filter(|(at, _)| own(at))
                .map(|(_, slow)| *slow);
            let pauses = self
                .plan
                .pauses
                .iter()
                .filter(|(at, _)| own(at))
                .map(|(_, pauses)| *pauses);
            let rng = stream(self.seed, &format!("{name} slowness"));
            let errors = self.plan.errors.iter().filter(|(at, _)| own(at));
            let links = self.plan.links.iter().filter(|(at, _)| own(at));
            let slowness = Slowness::new(slow.collect(), pauses.collect(), rng)
                .with_errors(errors.map(|(_, errors)| *errors).collect())
                .with_links(links.map(|(_, link)| *link).collect());
            let tags = device.whole("tags") as usize;
            let stalls = self.plan.queue_stalls.iter().filter(|(at, _)| own(at));
            let drive = Drive::new(name, model, slowness, tags, interrupts)
                .with_stalls(stalls.map(|(_, stall)| *stall).collect());
            ids.push(self.sim.add(Box::new(drive)));
        }
        Ok(ids)
    }

    pub(super) fn volume(&mut self, drives: &[ComponentId]) -> Result<Below, LabError> {
        let Some(geometry) = geometry(self.plan) else {
            return Ok(Below {
                id: drives[0],
                level: Level::Block,
                device: 0,
            });
        };
        check_geometry(self.plan, &geometry)?;
        let section = self.section("volume").clone();
        let volume = Volume::new(
            section.text("name"),
            geometry,
            drives.to_vec(),
            section.whole("hedge"),
        );
        Ok(Below {
            id: self.sim.add(Box::new(volume)),
            level: Level::Volume,
            device: drives.len() as u16,
        })
    }
}

fn drive_model(plan: &Plan, size_bytes: u64, seed: u64, name: &str) -> Result<Box<dyn DriveModel>, LabError> {
    let device = plan.scenario.section("device");
    let rng = stream(seed, name);
    let refused = |error: ParameterError| {
        let key = format!("device.{}", error.key);
        LabError::key(
            &plan.scenario.file,
            key,
            error.expected,
            error.found,
            "correct it",
        )
    };
    match device.text("kind") {
        "hdd" => {
            let mut parameters = match device.text("hdd_model") {
                "st2000dm006" => HddParameters::st2000dm006(),
                _ => HddParameters::nearline_7200(),
            };
            parameters.size_bytes = size_bytes;
            Ok(Box::new(Hdd::new(parameters).map_err(refused)?))
        }
        "ssd" => {
            let mut parameters = SsdParameters::p4500(size_bytes);
            parameters.filled = device.real("ssd_filled");
            parameters.overwritten = device.real("ssd_overwritten");
            Ok(Box::new(Ssd::new(parameters, rng).map_err(refused)?))
        }
        "fitted" => {
            let drive = FittedDrive::new(&plan.scenario.file, device, size_bytes, rng)?;
            Ok(Box::new(drive))
        }
        _ => Ok(Box::new(SimpleDrive::new(device, size_bytes, rng))),
    }
}

pub(super) fn make_interrupts(plan: &Plan, seed: u64) -> Option<Interrupts> {
    if !plan.scenario.has("interrupts") {
        return None;
    }
    let section = plan.scenario.section("interrupts");
    let cpus = plan.scenario.section("host").whole("cpus") as usize;
    let used = match section.text("affinity") {
        "honoured" => cpus,
        _ => cpus.min(section.whole("ignored_cpus") as usize),
    };
    let affinity: Vec<usize> = (0..section.whole("vectors") as usize)
        .map(|vector| vector % used)
        .collect();
    let costs = interrupts::Costs {
        handler_ns: section.whole("handler"),
        completion_ns: section.whole("completion"),
        idle_handler_ns: section.whole("idle_handler"),
    };
    Some(Interrupts::new(
        plan.scenario.drive_names(),
        section.whole("max_vec") as usize,
        &affinity,
        cpus,
        costs,
        plan.handlers.clone(),
        stream(seed, "interrupts"),
    ))
}
