//! Just enough XML for results of programs: elements, attributes, text; comments, declarations and namespaces are passed over.
//!
//! A document that is cut off gives the elements that were begun: what is missing is not observed.
use std::collections::HashMap;

/// An element.
#[derive(Debug, Default)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub attributes: HashMap<String, String>,
    /// The text directly in it, without white space around.
    pub text: String,
    /// Elements in it.
    pub children: Vec<Element>,
}

impl Element {
    /// Elements of this name in it.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The first element of this name in it.
    pub fn first(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// A child's text as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        let text = &self.first(name)?.text;
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// An attribute as a number.
    pub fn attribute(&self, name: &str) -> Option<f64> {
        let text = self.attributes.get(name)?;
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

/// Deepest nesting that is followed: results are a handful deep, and a damaged document shall not exhaust the stack.
const DEPTH_MAX: usize = 64;

/// The root of a document, and whether it was whole. None: there is no element.
pub fn parse(text: &str) -> Option<(Element, bool)> {
    let mut open: Vec<Element> = vec![Element::default()];
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let said = rest[..at].trim();
        if let Some(element) = open.last_mut().filter(|_| !said.is_empty()) {
            element.text.push_str(&unescaped(said));
        }
        rest = &rest[at..];
        let end_mark = if rest.starts_with("<!--") { "-->" } else { ">" };
        let Some(end) = rest.find(end_mark) else { break };
        let tag = &rest[1..end];
        rest = &rest[end + end_mark.len()..];
        if tag.starts_with(['!', '?']) {
            continue;
        }
        if tag.starts_with('/') {
            close(&mut open);
        } else {
            let is_empty = tag.ends_with('/');
            let element = element(tag.trim_end_matches('/'));
            if open.len() > DEPTH_MAX {
                return None;
            }
            open.push(element);
            if is_empty {
                close(&mut open);
            }
        }
    }
    let is_whole = open.len() == 1;
    while open.len() > 1 {
        close(&mut open);
    }
    let root = open.pop()?.children.into_iter().next()?;
    Some((root, is_whole))
}

fn close(open: &mut Vec<Element>) {
    if open.len() < 2 {
        return;
    }
    if let (Some(done), Some(parent)) = (open.pop(), open.last_mut()) {
        parent.children.push(done);
    }
}

fn element(tag: &str) -> Element {
    let mut element = Element::default();
    let end = tag.find(char::is_whitespace).unwrap_or(tag.len());
    element.name = tag[..end].to_owned();
    let mut rest = tag[end..].trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            break;
        };
        let Some((value, more)) = after[1..].split_once(quote) else {
            break;
        };
        element
            .attributes
            .insert(name.trim().to_owned(), unescaped(value));
        rest = more.trim_start();
    }
    element
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_attributes_and_text() {
        let text =
            "<?xml version=\"1.0\"?><a><!-- <b> --><b x='1' y=\"a&amp;b\"/><b>7</b><c><d> 2.5 </d></c></a>";
        let (root, whole) = parse(text).unwrap();
        assert!(whole && root.name == "a");
        let first = root.all("b").next().unwrap();
        assert_eq!(
            (first.attribute("x"), first.attributes["y"].as_str()),
            (Some(1.0), "a&b")
        );
        assert_eq!(root.first("c").unwrap().number("d"), Some(2.5));
        let (cut, whole) = parse(&text[..text.len() - 9]).unwrap();
        assert!(!whole && cut.all("b").count() == 2);
        assert!(parse("no element").is_none());
        assert!(parse(&"<a>".repeat(1000)).is_none());
    }
}
