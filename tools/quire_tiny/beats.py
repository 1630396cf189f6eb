"""Beats that many plots share: comfort, joy, thanks and the way a story ends."""


def comfort(w):
    w('{e} [came|came in|sat down next to {h.o}]. "[What is wrong|What is the matter|Why are you sad]{h.vc}?" {e.s} asked.',
      "{e} saw {h.o} and [came closer|sat down beside {h.o}].",
      'Then {h} went to {e}. "[Can you help me|I need your help]," {h.s} said.')


def joy(w):
    w("{h} was {happy}.", "{h} [jumped|danced|laughed] [with joy|and sang].", "{h} felt {happy}.",
      "{h} smiled from ear to ear.", "{h} clapped and laughed.")


def thanks(w, *more):
    w(*more, '"[Thank you|Thank you so much|Thanks]{f.vc}!" {h} said.',
      '"[How can I thank you|What would I do without you]{f.vc}?" {h} asked.')


ENDINGS = [
    "The end.", "And {they} lived happily ever after.", "And {h} was happy ever after.", "It was a [wonderful|very good|beautiful|special] day.",
    "And {they} were [always|] good friends.", "{h} was {happy}.", "{h} never forgot that day.",
    "That night, {h} [slept well|had sweet dreams|went to bed with a smile].",
    "{h} went home with a [happy heart|big smile].", "From that day on, {hf} were best friends.",
    "And that is how {h} learned that {moral}.", "{h} had learned that {moral}.",
    "Now {h} knew that {moral}.", "{h} learned that {moral}.", "The moral of the story is that {moral}.",
    "And everyone was happy.", "{e} hugged {h.o}. \"[Remember|You see]{h.vc}, {moral},\" said {e}.",
    '"{moral}," said {e}, and {h} knew that it was true.', "{h} smiled and thought, \"{Moral}.\"",
    "What a day!", "{h} could not wait for the next day.", "",
]


def end(w, moral):
    """One or two closing sentences; the moral now and then."""
    w.put(moral=moral, Moral=moral[0].upper() + moral[1:])
    usable = [t for t in ENDINGS
              if ("{e}" not in t or w.known("e")) and (w.known("f") or ("{they}" not in t and "{hf}" not in t))]
    if w.rng.random() < 0.5:
        w.para()
    w(*usable)
    w.maybe(0.25, "The end.", "And that was that.", "It was a good day.", "And so the story ends.")
