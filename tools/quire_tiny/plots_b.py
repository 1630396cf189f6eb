"""Story plots, part two."""

import words as W
from beats import comfort, end, joy, thanks
from engine import Thing


def treasure(w):
    w.place("pl", ("hill", "big oak tree", "old bridge", "cave", "old mill", "waterfall", "island", "lighthouse"))
    w.free_thing("x", W._w("map, letter, key, note in a bottle, old book, photo, piece of paper"))
    w.put(loot=w.pick(("gold coins", "a music box", "old toys", "a letter from long ago", "a golden crown", "a book full of stories",
                       "shiny stones", "seeds of every color", "a silver whistle", "a mirror")), steps=w.pick(W.NUMBERS[5:20]))
    w.open()
    w("{when} {h} found {x.a} [in an old box|under the stairs|in the garden|in {h.p} pocket|behind a picture].", "{when} {f} came with {x.a}. \"Look what I found!\" {f.s} said.")
    w("[On it was written|It said|There were words on it]: \"[Go|Walk] {pl.to} and take {steps} steps to the [north|east|south|west].\"", "It showed the way {pl.to}. There was a red [cross|star] at the end of the path.")
    w('"[It is a secret|There must be a treasure|Let us follow it]!" {h} said.', '"Do you think there is a treasure?" asked {f}. "[There is only one way to find out|I hope so|Let us go and see]," {h} said.')
    w.para()
    w("{hf} [took a lamp|packed some bread|told no one] and went {pl.to}.", "{they} walked {pl.to}, [past the mill|over the stream|through the tall grass].")
    w("{they} counted the steps. One, two, three... all the way to {steps}. Then {they} began to dig.", "{they} looked {hide0}, but there was nothing. Then {they} dug a hole.".replace("{hide0}", w.pick(W.HIDING)),
      "It was getting late, and {f} was tired. \"[One more try|Let us dig here],\" {h} said.")
    w("[Clack|Bump]! There was something hard. It was an old [box|chest].", "After a while, {h} hit something. It was a small [box|chest].")
    w.para()
    w("Inside, {they} found {loot}!", "{they} opened it slowly. It was full of light, and there {they} saw {loot}.")
    w('"[We are rich|It is beautiful|What a wonder]!" cried {f}.', '"Who put it here?" asked {f}. No one knew.', "")
    w("{they} gave [most of it|it] to [the school|the village|{e}], and everyone was happy.", "{they} shared it, half for {f} and half for {h.o}.", "{they} put a new note in the box for the next [finder|child].")
    end(w, "the best treasure is a friend to share it with")


def garden(w):
    w.put(plant=w.pick(W.PLANTS), weeks=w.pick(("two weeks", "three weeks", "a month", "ten days", "many days")))
    w.open()
    w("{when} {e} gave {h.o} a [small|tiny|brown] seed. \"[Put it in the ground|Plant it] and see what happens,\" {e.s} said.", "{when} {h} found a [strange|small|round] seed. {h.s} wanted to know what it would become.", "{h} had a small garden. {when} {h.s} planted a {plant} seed.")
    w("{h.s} made a hole, put the seed in and covered it with soil.", "{h} [dug a hole|chose a sunny place] and planted it with care.")
    w("{h.s} gave it water [and waited|every morning].", "Every day, {h.s} brought water and looked.")
    w.para()
    w("But nothing happened. [One day passed, then two, then three.|]", "The first day, nothing came up. The second day, nothing came up.")
    w('"[Why does it not grow|Is it asleep|Is it broken]?" {h} asked. "[You must wait|Good things take time|Be patient]," said {e}. "[It is growing under the ground|It needs sun, water and time]."',
      '"I do not want to wait," {h} said. "[A seed can not hurry|Roots come first]," said {e}. "Be patient."')
    w("{f} laughed. \"There is only dirt!\" {f.s} said. But {h} did not give up.", "So {h} sang to it and gave it water.", "It rained, and then the sun came out.")
    w.para()
    w("After {weeks}, there was a tiny green leaf!", "Then one morning, {h} saw something green. It was a little leaf.")
    w("It grew and grew, until it was [as tall as {h}|as tall as the house|the biggest {plant} in the village]." if not w.first_person else "It grew and grew, until it was the biggest {plant} in the village.", "Soon there was a beautiful {plant}.")
    w('"[Look how big it is|It was worth the wait|I waited and now it is here]!" {h} said.', "{f} came to look. \"[I was wrong|It is lovely|Can you teach me],\" said {f}.")
    w("{h} shared it with all the neighbors.", "In the autumn, {h} kept the seeds for next year.", "Bees and butterflies came to visit.", "{h} gave a new seed to {f}.")
    end(w, "good things take time")


def sick_friend(w):
    w.put(soup=w.pick(("chicken soup", "hot soup", "warm milk with honey", "tea with lemon", "a warm pie", "fresh bread", "sweet berries", "a bowl of porridge")))
    w.open()
    w("{when} {h} wanted to play with {f.first}. But {f} did not come.", "{when} {h} went to visit {h.p} friend {f}." if w.ctx["f"].named else "{when} {h} went to visit {f.first}, {h.p} friend.")
    w("{f} was [sick|ill] and had to stay in bed.", '"[I am sick|My head hurts|I have a cold]," said {f}. "[I can not play today|I have to stay in bed]."')
    w('"[Poor {f}|Oh no]," {h} said. "[How can I help|What can I do for you]?"', "{h} was {sad}. {h.s} wanted to help.")
    w.para()
    w("{h} went home and made {soup}. {e} [helped|showed {h.o} how].", '"What helps when you are sick?" {h} asked {e}. "{soup} and a good friend," said {e}.')
    w("{h} carried it [carefully|slowly] to {f.ps} house. [It was a long way, but not one drop was lost.|]", "Then {h} picked some flowers and drew a picture too.")
    w('"[This is for you|Here, this will help]," {h} said. {f} [ate it all|smiled for the first time that day].', "{f} ate slowly. \"[It is so good|I feel better already|You are so kind],\" {f.s} said.")
    w.para()
    w("{h} sat by the bed and [read a story|told jokes|sang a song|played a quiet game].", "{h} stayed until {f} fell asleep.")
    w("After [two|three|a few] days, {f} was well again. {they} played [all day|in the sun].", "The next morning, {f} felt much better. \"[Now we can play|Let us go out]!\" {f.s} said.")
    w("And when {h} got sick one day, {f} came with {soup} too.", "")
    end(w, "a visit from a friend is the best medicine")


WISHES = [
    ("that everything was made of candy", "the chairs were sticky and the bed was too hard", "there was no bread and no water"),
    ("to be as tall as a tree", "no house was big enough", "no one could hear what was said so high up"),
    ("that it was always summer", "the river was dry and the flowers were thirsty", "no one could play in the snow"),
    ("to fly like a bird", "the wind was cold and the nest was hard", "it was lonely in the sky"),
    ("that no one ever had to sleep", "everyone was tired and angry", "there were no more dreams"),
    ("to have all the toys in the world", "there was no room to play", "the other children had nothing to play with"),
    ("to be invisible", "no one said hello", "everyone walked into someone they could not see"),
    ("for a mountain of gold", "gold could not be eaten", "everyone was afraid of thieves"),
    ("to be the king of everything", "there was too much work to do", "no one wanted to play with a king"),
    ("that every day was a birthday", "no one had time to bake so many cakes", "after a week, no one was excited any more"),
    ("that it would never rain", "the grass turned brown", "the ducks had no pond"),
]


def wish(w):
    want, bad1, bad2 = w.pick(WISHES)
    w.free_thing("x", W._w("lamp, ring, shell, stone, feather, bottle, coin, button, spoon, bell, mirror, flute, key"))
    w.put(want=want, bad1=bad1, bad2=bad2)
    w.open()
    w("{when} {h} found {x.a} {hide0}.".replace("{hide0}", w.pick(W.HIDING)), "{when} {e} gave {h.o} {x.a}. \"Be careful, it is magic,\" {e.s} said.")
    w("{h} [rubbed|touched|cleaned] it. There was a flash of light, and a [soft|tiny|strange] voice said, \"[You have one wish|Make a wish|I will give you one wish].\"", "It began to [shine|sing|shake]. \"[Make a wish|You may wish for one thing],\" it said.")
    w('{h} did not think for long. "I wish {want}!" {h.s} said.', '"I wish {want}," {h} said. And so it was.')
    w.para()
    w("At first, it was [wonderful|great fun]. But soon, {bad1}.", "{h} was {happy}. But [the next day|after a while], {bad1}.")
    w("And {bad2}. {h} felt {sad}.", "And that was not all, because {bad2}.")
    w('"[This is not what I wanted|I did not think about that|I made a mistake]," {h} said. "[Please take it back|I want everything to be as it was before]."', '{h} asked {f} what to do. "[Give the wish back|Ask it to undo the wish|Say that you are sorry]," said {f}.')
    w.para()
    w("{h} held the {x.n} and said, \"[Please make it as it was|I wish that all was as before].\"", "{h} took the {x.n} again and closed {h.p} eyes. \"[I give my wish back|Please undo it],\" {h.s} said.")
    w("There was another flash, and everything was [normal|as it had been].", "The {x.n} [laughed softly|shone once more], and the magic was gone.")
    w("{h} put the {x.n} [back where it was|in a box|in the river] and went home to {e}.", "{h} looked around. Everything was in its place.")
    end(w, "it is good to think before you wish")


def get_lost(w):
    w.place("pl", ("forest", "woods", "market", "town", "mountain", "zoo", "valley", "island", "castle"))
    w.extra("g", "animal")
    w.put(lure=w.pick(("a blue butterfly", "a rabbit", "the sound of music", "a bright light", "a funny bird", "a sweet smell", "a little stream", "a red balloon")))
    w.open()
    w("{when} {h} went {pl.to} with {e}.", "{when} {h} was {pl.at} with {e}.")
    w('"[Stay close to me|Do not go far]{h.vc}," said {e}. But {h} saw {lure} and followed it.', "{h} saw {lure}. {h.s} wanted to see more, so {h.s} followed it.")
    w("When {h.s} looked back, {e} was [gone|nowhere to be seen].", "{h.s} went farther and farther. Then {h.s} stopped. Where was {e}?")
    w.para()
    w('"[Hello|Where are you]?" {h} called. No one answered.', '"I am lost!" {h} [cried|said]. {h.s} was {scared}.', "Everything looked [the same|strange]. {h} began to cry.")
    w("Then {h.s} remembered what {e} had said: \"If you are lost, stay [calm|where you are] and ask for help.\"", "{h} sat down and took a deep breath. \"[Do not panic|I must think],\" {h.s} said to {h.r}.", "")
    w('{g.first} came by. "[Are you lost|Why are you crying|Can I help you]?" asked {g}.', 'A voice said, "[Hello there|Do not cry]." It was {g.first}.')
    w('"I can not find {e}," {h} said.', '"[I lost my way|I do not know the way back]," {h} said.')
    w('"[I know every path here|I can help you|Follow me]," said {g}. "[Come with me|We will find the way|Look for the tall tree]."', '"[I saw someone looking for you|I know the way]," said {g}. "Follow me."')
    w.para()
    w("{h} followed {g} [over the stream|past a big rock|through the trees|around a corner] and [up a hill|down the path].", "{they3} walked for a while.".replace("{they3}", "We" if w.first_person else "They"))
    w("And there was {e}! {h} ran [into {e.p} arms|as fast as {h.s} could].", '"There you are!" cried {e}. {e} hugged {h.o} [for a long time|tight].')
    w('"[I was so worried|I looked for you everywhere]," said {e}. "[I am sorry|I will stay close now]," {h} said.', '{h} thanked {g}. "[You are welcome|Any time]," said {g} and went away.')
    end(w, "it is good to stay close and to ask for help")


def snow_day(w):
    w.put(nose=w.pick(("a carrot", "a small stone", "a pine cone", "a stick")), eyes=w.pick(("two buttons", "two black stones", "two nuts", "two coins")), hat=w.pick(("an old hat", "a red cap", "a pot", "a bucket", "a straw hat")))
    w.open(weather="snowy")
    w("{when} [everything was white|there was snow on the roofs and the trees].", "{when} {h} ran outside. The snow [was deep|fell softly].")
    w('"[Let us make a snowman|I want to build a snowman]," {h} said. {f} came to help.', "{hf} put on warm [coats|boots] and went out.")
    w("{they} [rolled|made] three big balls, one on top of the other.", "{they} rolled the snow until it was [big and round|bigger than {h}]." if not w.first_person else "We rolled the snow until it was big and round.")
    w("For the nose {they} took {nose}, and for the eyes {eyes}. On its head {they} put {hat}.", "{they} gave it {eyes} for eyes, {nose} for a nose and {hat}.")
    w.para()
    w('"[He looks cold|He needs something warm]," said {f}. {h} gave the snowman [a red scarf|{h.p} scarf].', '"[What is his name|What shall we call him]?" asked {f}. "{sname}," {h} said.'.replace("{sname}", w.pick(("Mr. Snow", "Frosty Bob", "Big White", "Snowball", "Cold Joe"))))
    w("{they} [threw snowballs|slid down the hill|made snow angels] until {their} hands were cold.", "In the night, {h} looked out. Did the snowman [wave|smile]? {h} was not sure.")
    w("{e} made hot [chocolate|tea|milk] for everyone.", "Then {they} went inside and [sat by the fire|drank something hot].")
    w.para()
    w("After some days, the sun was warm, and the snowman [became smaller and smaller|began to melt].", "Then spring came, and the snowman was gone. Only {hat} was left.")
    w('"[Do not be sad|He will come back]," said {e}. "[Next winter there will be new snow|Snow always comes again]."', "{h} was a little sad, but there was a flower where the snowman had been.")
    end(w, "some things are beautiful because they do not last")


def coin(w):
    w.free_thing("x", W.TOYS)
    w.place("pl", ("market", "town", "village square"))
    needy = w.pick(("a poor man who was hungry", "an old woman who was cold", "a little girl who had no shoes", "a boy who had lost his money", "a hungry dog", "an old man with a broken cart"))
    w.put(needy=needy, nd=needy.split(" who")[0].split(" with")[0].replace("a ", "the ", 1).replace("an ", "the ", 1) if not needy.startswith("an ") else "the " + needy[3:].split(" who")[0].split(" with")[0],
          n=w.pick(W.NUMBERS[2:11]))
    w.open()
    w("{h} wanted to buy {x.a}. {h.s} saved [{n} coins|every coin]. It took [a long time|many weeks].", "{h} worked [all summer|every day] to [get|earn] {n} coins. {h.s} wanted to buy {x.a}.")
    w("{when} {h.s} went {pl.to} with the money in {h.p} [pocket|hand].", "{when} {h} walked {pl.to} to buy the {x.n}.")
    w.para()
    w("On the way, {h.s} saw {needy}.", "But next to the shop, there was {needy}.")
    w("{h} looked at the {x.n} in the window. Then {h.s} looked at {nd}.", "{h} stopped. {h.s} wanted the {x.n} so much. But {nd} [looked so sad|had nothing].")
    w("{h} gave {h.p} coins away. {nd} [was so thankful|had tears of joy].", '"[You need this more than I do|Please take this]," {h} said and gave the money to {nd}.', "{h.s} bought [bread|warm food|food] and gave it to {nd}.")
    w.para()
    w("{h} went home without the {x.n}, but {h.p} heart was [warm|light].", "{e} asked, \"Where is your {x.n}?\" {h} told {e.o} everything. {e} was very proud.")
    w("The next morning, there was a [box|package] at the door. Inside was {x.a}! [No one knew who had sent it.|On it was written: \"For a kind heart.\"]", "A few days later, {f} came with {x.a}. \"[I do not need it any more|This is for you, because you are kind],\" said {f}.",
      "{h} made a {x.n} from old [wood|paper|cloth]. It was even better." if w.ctx["x"].n in ("doll", "kite", "toy boat", "toy car", "mask", "puppet", "paper boat", "toy truck", "toy plane", "toy train") else "That night, {h} slept better than ever.")
    end(w, "giving makes us richer")


def quarrel(w):
    w.free_thing("x", W.TOYS)
    w.extra("g", "animal")
    w.open()
    w("{when} {hf} were playing with {x.a}.", "{when} {hf} found {x.a}.", "{when} {h} and {h.p} friend {f} wanted to play with the same {x.n}." if w.ctx["f"].named and not w.first_person else "{when} {hf} wanted to play with the same {x.n}.")
    w('"[It is mine|I want it first|Give it to me]!" {h} said. "No, [it is mine|I saw it first|me first]!" said {f}.', '"[My turn|I had it first]!" said {f}. "You had it [all day|yesterday]!" {h} said.')
    w("{they} pulled, one on each side. Then, [crack|snap]! The {x.n} broke.", "{they} [shouted|pulled] until the {x.n} fell [into the mud|into the water|and broke].")
    w.para()
    w('"[Look what you did|This is your fault]!" {h} cried. {f} went home and did not look back.', "{they} were both angry and walked away, one to the left and one to the right.")
    w("{h} sat alone. It was [quiet|boring] without {f}.", "That day, {h} had no one to [laugh|play] with. The {x.n} was not important any more.")
    w('{g.first} saw {h.o}. "Is a {x.n} more important than a friend?" asked {g}. {h} thought about it.', '"[I miss my friend|I was not nice]," {h} told {e}. "Then go and say it to {f}," said {e}.')
    w.para()
    w("{h} went to {f}. At the same time, {f} was on the way to {h.o}. {they} met in the middle.", "{h} knocked on {f.ps} door.", "{h} found {f} [under a tree|by the pond].")
    w('"I am sorry," {h} said. "I am sorry too," said {f}.', '"[I am sorry that I was so angry|I am sorry, I wanted it all for me]," {h} said. "[Me too|I am sorry as well]," said {f}.')
    w("Together {they} [fixed|cleaned] the {x.n} and took turns.", "{they} [made|found] a new game that needs two.", "{they} hugged and laughed about it.")
    end(w, "a friend is worth more than any toy")


def noise(w):
    cause = w.pick(("a little kitten that was hungry", "a mouse that ate a cookie", "a branch that knocked at the window", "a lost puppy", "an owl that wanted to say hello",
                    "the old clock", "a hedgehog that drank from a bowl", "a bird that had lost its nest", "a ball that rolled down the stairs", "{e}, who was looking for the milk"))
    w.put(cause=cause.replace("{e}", str(w.ctx["e"])), sound=w.pick(("Scratch, scratch", "Bump, bump", "Tap, tap, tap", "Knock, knock", "Crunch, crunch", "Squeak, squeak")),
          where=w.pick(("under the bed", "in the kitchen", "at the window", "in the hall", "behind the door", "on the roof", "in the attic", "in the cellar")))
    w.open(night=True)
    w("{when} {h} heard a noise. {sound}!", "{when} there was a strange sound. {sound}!")
    w('"[What was that|Who is there]?" {h} whispered. [No one answered.|]', "{h} sat up. {h.p} heart beat [fast|like a drum].", "It came from {where2}. {h} was {scared}.".replace("{where2}", "somewhere " + w.ctx["where"]))
    w('"[It is a monster|Maybe it is a ghost]," {h} thought.', "{h} thought of monsters with [big teeth|long arms|green eyes].", "{h} pulled the blanket over {h.p} head.")
    w.para()
    w("{sound}! There it was again.", "But the sound did not stop. {sound}!")
    w("{h} took a [lamp|candle|spoon] and went to look.", "At last, {h} got up. {h.s} [took a lamp and|] walked on [tip toes|quiet feet].", "{h} [woke|called] {f}, and together {they} went to look.")
    w("{h.s} looked {where}. One step, two steps, three steps...", "Slowly, {h.s} looked {where}. {h.p} hand shook.")
    w.para()
    w("There was no monster. It was only {cause}!", "And what did {h.s} see? It was {cause}!")
    w('{h} began to laugh. "[You scared me|So it was you|And I thought it was a monster]!" {h.s} said.', "{h} laughed [and laughed|at {h.r}].")
    w("{h} went back to bed and [slept well|fell asleep at once].", "After that, {h} was not so afraid of [noises|the night].", "The next day, {h} told everyone, and they laughed together.")
    end(w, "many scary things are small when you look at them")


def helping(w):
    job = w.pick((("clean the house", "swept the floor, washed the windows and made the beds"), ("bring in the hay", "carried the hay into the barn"),
                  ("wash the dishes", "washed every plate and every cup"), ("pick the apples", "picked apples until three baskets were full"),
                  ("carry the wood", "carried the wood, piece by piece"), ("feed the animals", "fed the hens, the cow and the goats"),
                  ("water the garden", "carried water to every flower"), ("fix the fence", "held the boards and passed the nails"),
                  ("paint the door", "painted the door a bright green"), ("sort the books", "put all the books in order"),
                  ("rake the leaves", "raked the leaves into a big pile")))
    w.put(job=job[0], did=job[1], treat=w.pick(("a warm cookie", "an apple pie", "a big hug", "a shiny coin", "a cup of cocoa")))
    w.open()
    w("{when} {e} had to {job}. There was [so much to do|a lot of work].", '{when} {e} was [tired|very busy]. "I still have to {job}," {e.s} said.')
    w('"[Can I help|May I help you|I will help you]," {h} said.', "{h} wanted to go out and play. But {h.s} saw that {e} was tired.", '{h} was going to play with {f}. But then {h.s} said, "I will help you first."')
    w('"[You are still small|It is hard work|Are you sure]," said {e}. "[I am strong|I can do it|Let me try]," {h} said.', '"[That would be lovely|How kind of you]," said {e}.')
    w.para()
    w("So {h} {did}.", "{h} [rolled up {h.p} sleeves|sang a song|began at once] and {did}." if w.ctx["h"].group in ("child", "job", "fantasy") else "{h} sang a song and {did}.")
    w("It was [hard|not easy], but {h} did not stop.", "{f} came by. \"Come and play!\" {f.s} said. \"[First I want to finish|When I am done],\" {h} said. Then {f} helped too.", "Once, {h} [dropped something|made a mess], but {h.s} cleaned it up.")
    w("When it was done, {h} was [tired but proud|very proud].", "In the end, everything was [done|perfect].")
    w.para()
    w('"[What would I do without you|You are a great help|Thank you]{h.vc}," said {e} and gave {h.o} {treat}.', '{e} looked around. "[Wonderful|You did all this]!" {e.s} said. {h} got {treat}.')
    w("Then {h} had time to play [until dark|].", "{h} felt {happy}.")
    end(w, "many hands make light work")


def greedy(w):
    fd = w.pick(("honey", "berries", "cookies", "apples", "nuts", "candy", "cherries", "cheese", "plums"))
    w.put(fd=fd, wise=w.pick(("It is best to take only what you need", "Enough is enough", "Too much is not good for you")))
    w.open()
    w("{h} [loved|liked] {fd} more than anything.", "There was one thing {h} could not resist: {fd}.")
    w("{when} {h} found [a lot of|a whole basket of|a secret place with] {fd}. \"[All for me|This is all mine|I will eat it all]!\" {h.s} said.", "{when} {e} put [a big bowl of|] {fd} on the table. \"[This is for everyone|Only two for each of us],\" said {e}. Then {e.s} went out.")
    w('{f.first} came and asked for some. "No," {h} said, "there is not enough."', '"{wise}," said {f.first}. But {h} did not listen.')
    w("{h} ate and ate. [First one, then two, then ten.|{h.s} could not stop.]", "{h} ate [until nothing was left|the {fd} one after the other].")
    w.para()
    w("Soon {h.p} stomach began to hurt. \"[Ow|Oh], my stomach!\" {h} cried.", "Then {h} felt [very sick|terrible]. {h.s} could not even walk.")
    w("{e} came and [put {h.o} to bed|gave {h.o} some tea]. \"[Did you eat all the {fd}|You ate too much],\" said {e}.", "{f} heard it and came back. {f.s} was not angry. {f.s} brought {h.o} some [tea|water].")
    w('"I am sorry," {h} said. "I [was greedy|wanted too much|should have shared]."', "{h} felt ashamed. \"[Next time I will share|I will never eat so much again],\" {h.s} said.")
    w.para()
    w("The next day, {h} [picked|brought] new {fd}" + " for {f} and {e}. {h.s} ate only two.", "The next time {h} had {fd}, {h.s} gave the first to {f}.", "When {h} felt better, {h.s} [shared|divided] everything in equal parts.")
    end(w, "{wise}".replace("{wise}", w.ctx["wise"][0].lower() + w.ctx["wise"][1:]))


def small_hero(w):
    w.extra("g", "animal")
    prob = w.pick((("the big bell was stuck", "through the small hole and freed the bell"), ("a ring had fallen between the stones", "between the stones and brought the ring back"),
                   ("a key lay at the bottom of a narrow well", "down the narrow well and found the key"), ("a baby bird was stuck in the roof", "under the roof and set the bird free"),
                   ("the door was locked from inside", "through the little window and opened the door"), ("the wheel of the mill had stopped", "into the wheel and pulled out a small stick")))
    w.put(prob=prob[0], sol=prob[1])
    w.open()
    w("{h} was [small|very small], the smallest of all.", "Everyone was bigger than {h}.", "The others laughed because {h} was so small.")
    w('"[You are too small to help|You are too little for this game|Go home, little one]," said {g.first}.', '"What can such a small one do?" asked {g.first}, and everyone laughed.')
    w('"[I wish I was big|Why am I so small]?" {h} asked {e}. "[Everyone is good at something|Your time will come|Small is not the same as weak]," said {e}.', "{h} went away, {sad}.")
    w.para()
    w("{when} {prob}. Everyone came to look.", "{when} there was trouble. {prob}, and no one knew what to do.")
    w("{g} tried, but {g.s} was too big. {f} tried too, but it did not work.", "The strong ones pulled and pushed. The tall ones reached. Nothing helped.")
    w('"Let me try," {h} said. [Some laughed.|Everyone was quiet.]', '"I am small enough," {h} said. "I can do it."')
    w.para()
    w("{h} climbed {sol}.", "Slowly and carefully, {h} went {sol}.")
    w('"[Hurray|Hooray] for {h}!" everyone cried.' if not w.first_person else "Everyone cheered.", "Everyone cheered and clapped.")
    w('"[I am sorry that I laughed|I was wrong about you]," said {g}. "[You are small but great|Only you could do that]."', "{g} carried {h.o} [home|through the town] on {g.p} back.")
    end(w, "even the smallest can do great things")


def stage(w):
    act, thing = w.pick((("sing a song", "song"), ("play the drum", "rhythm"), ("read a poem", "first word"), ("dance", "first step"), ("play the flute", "melody"), ("tell a story", "story"), ("do a magic trick", "trick")))
    w.put(act=act, thing=thing)
    w.open()
    w("{when} there was a show at [school|the market|the theater|the farm]. {h} was going to {act}.", "{when} {h} had to {act} in front of [everyone|the whole village|many people].")
    w("{h} had practiced [every day|for weeks]. At home, it was easy.", "{h} knew every [word|step|note] by heart." if act != "do a magic trick" else "{h} knew the trick by heart.")
    w("But when {h.s} stood on the stage, {h.s} forgot the {thing}. Everyone was looking.", "Then it was {h.p} turn. {h.p} knees shook, and {h.p} mouth was dry.")
    w.para()
    w("{h} looked for {e}. {e} was in the first row and smiled.", "Then {h} saw {f} in the crowd. {f} waved and [smiled|nodded].")
    w('{h} remembered what {e} had said: "[Look at one friendly face|Breathe and begin slowly|Do it only for me]."', '"[You can do it|Just begin|We love you]!" [called|whispered] {f}.')
    w("{h} took a deep breath and began. First very [quietly|slowly], then [louder|with more courage].", "{h.s} closed {h.p} eyes, and the {thing} came back.")
    w.para()
    w("When it was over, it was quiet for a moment. Then everyone clapped [and clapped|and stood up].", "It was [wonderful|beautiful]. People clapped for a long time.")
    w('"[That was beautiful|You were so brave|I am so proud]{h.vc}," said {e}.', "{h} bowed and smiled.")
    end(w, "it is fine to be nervous, just begin")


def letter(w):
    far = w.pick(("grandmother", "grandfather", "best friend", "aunt", "uncle", "brother", "sister"))
    w.put(far=far, fs={"f": "she", "m": "he"}["m" if far in ("grandfather", "uncle", "brother") else "f"], lives=w.pick(("far away", "across the sea", "in another land", "behind the mountains", "in a big city", "on an island")),
          days=w.pick(W.NUMBERS[3:15]), gift=w.pick(("a drawing", "a dry flower", "a feather", "a small shell", "a red leaf", "a photo", "a paper star")))
    w.open()
    w("{h.ps} {far} lived {lives}. {h} missed {fo} very much.".replace("{fo}", "him" if w.ctx["fs"] == "he" else "her"), "{h} had a {far} who lived {lives}. They had not seen each other for a [year|long time]." if not w.first_person else "I had a {far} who lived {lives}. I missed {fo} a lot.".replace("{fo}", "him" if w.ctx["fs"] == "he" else "her"))
    w('{when} {h} said, "I will write a letter!"', "{when} {h} took a pen and paper and sat down to write.")
    w('{h} wrote: "[How are you|Are you well]? I am [fine|well]. [Today I saw a rainbow|I have a new friend|I lost a tooth|The garden is green now]. [Please come and visit us|I miss you|When will you come]?"', "{h} wrote about [the garden|the school|the weather], about {f} and about {food}.")
    w("{h.s} put {gift} in it and took it to the post office.", "{h} put {gift} into the letter. Then {h.s} ran to the mailbox.")
    w.para()
    w("Then {h} had to wait. {h.s} looked into the mailbox every day. One day, two days, three days... Nothing.", "{h} waited {days} days. Every morning, {h.s} asked the postman, but there was no letter.")
    w('"[Maybe it got lost|Did I do something wrong|Why does no one write back]?" {h} asked {e}. "[Be patient|It is a long way]," said {e}.', "{f} told {h.o} [not to worry|to be patient].")
    w.para()
    w("Then, after {days} days, there was a knock at the door.", "One morning, someone was at the door.")
    w('It was {h.ps} {far}! "[Your letter was so nice that I had to come|I got your letter and came at once|I thought I would bring the answer myself]," {fs} said.', "The postman had a big box. In it were [cookies|a warm scarf|a book] and a long letter from {h.ps} {far}.")
    w("{h} [laughed and cried at the same time|jumped up and down|was {happy}].")
    end(w, "a few kind words can travel far")


def teamwork(w):
    w.extra("g", "animal")
    ob = w.pick((("a big tree had fallen across the road", "the tree", "rolled it to the side"), ("a cart was stuck in the mud", "the cart", "pulled it out of the mud"), ("a huge stone blocked the stream", "the stone", "pushed it away"),
                 ("the old gate would not open", "the gate", "opened it with a loud squeak"), ("a giant pumpkin was too heavy to move", "the pumpkin", "rolled it all the way home"), ("the boat was stuck in the sand", "the boat", "pushed it into the water"),
                 ("a big turnip would not come out of the ground", "the turnip", "pulled it out with a pop")))
    w.put(ob=ob[0], it=ob[1], done=ob[2])
    w.open()
    w("{when} {ob}.", "{when} there was a problem. {ob}.")
    w('"[I am strong enough|I can do it alone]," {h} said. {h.s} pushed and pulled, but {it} did not move.', "{h} tried to move {it}. {h.s} tried with all {h.p} strength. Nothing happened.")
    w('{f.first} came along. "[Let me help|I will help you]," said {f}. {they} tried together, but {it} was still too heavy.', '{h} called {f.first}. Two pushed, but {it} did not move.')
    w.para()
    w('Then {g.first} came. "You are so [small|slow]," said {f}. "How can you help?" "[Every bit helps|Let me try]," said {g}.', '"We need one more," {h} said. So {g.first} came too.')
    w('"[One, two, three|All together|Ready, set]... [push|go|now]!" {h} called.', "{h} counted to three, and all of them used their strength at the same time." if not w.first_person else "I counted to three, and all of us used our strength at the same time.")
    w("[At first, nothing happened.|] Then {it} moved, a little, and then a little more. They {done}!" if not w.first_person else "Then {it} moved. We {done}!", "And this time it worked. They {done}!" if not w.first_person else "And this time it worked. We {done}!")
    w.para()
    w('"[We did it|Hooray]!" cried {g}.', "Everyone fell on the ground and laughed.")
    w("Then they ate {food} together." if not w.first_person else "Then we ate {food} together.", "{e} gave them all [something to drink|warm soup]." if not w.first_person else "{e} gave us all something to drink.", "")
    end(w, "together we are strong")


def fallen_star(w):
    w.place("pl", ("hill", "mountain", "lighthouse", "big oak tree", "meadow", "lake"))
    w.open(night=True)
    w("{when} {h} saw a light fall from the sky. It fell [behind the hill|into the garden|into the woods|near the pond].", "{when} a little star fell down. {h} saw it from the window.")
    w("{h} ran out [with bare feet|in the cold|at once]. There, in the grass, lay a [small|tiny] star. It was [crying|cold|not very bright].", "{h} followed the light and found a little star {hide0}.".replace("{hide0}", w.pick(("in the grass", "under a bush", "on a stone", "in a nest", "in a bucket"))))
    w('"[I fell down|I slipped]," said the star. "[I want to go home|My family is up there|How do I get back]?"', '"[Please help me|Who are you]?" asked the star. "I fell from the sky, and now I can not go back."')
    w.para()
    w('"[Do not cry|I will help you]," {h} said. {h.s} put the star into [a basket|{h.p} pocket|a warm hat].', "{h} held the star in {h.p} hands. It was [warm|light] like [bread|a feather].")
    w("{h.s} climbed on the roof, but it was not high enough.", "{h.s} threw it up, but it came down again.", "{h} asked {f}, who knew [a lot about the sky|the highest place]. \"You must go {pl.to},\" said {f}." )
    w("So {they} went {pl.to}. It was far, but the star gave light.", "Together {they} walked {pl.to} in the dark.")
    w("{pl.at}, the wind was strong. \"[Now|Hold tight]!\" {h} said. The wind took the star and carried it up, up, up.", "There {h} [lifted the star|sang a song for the sky]. A moonbeam came down like a [ladder|rope], and the star climbed up.")
    w.para()
    w('"Thank you!" called the star. It [was the brightest of all|shone brighter than before].', "Soon the star was back with its [family|friends].")
    w("Every night, {h} waved, and the star [winked|blinked] back.", "When {h} looks up now, one star always [blinks|shines] for {h.o}.")
    end(w, "you can help even someone from very far away")


def boasting(w):
    can = w.pick((("run faster than the wind", "race"), ("climb higher than anyone", "climbing game"), ("sing better than all the birds", "song"), ("jump over every stream", "jump"), ("swim better than a fish", "swim"), ("eat more than a giant", "meal")))
    w.put(can=can[0], ev=can[1])
    w.open()
    w("{h} [liked to boast|was very proud]. \"I can {can},\" {h.s} said [every day|to everyone].", 'Every day, {h} said, "I am the best. I can {can}!"')
    w("The others were tired of it. [No one wanted to listen.|]", '"[Not again|Please stop]," said {f.first}.')
    w('{when} {f} said, "[Then show us|All right, let us see]." {h} could not say no.', "{when} everyone came to see it.")
    w.para()
    w("{h} began [too fast|without looking], because {h.s} wanted to be great. Then {h.s} fell [into the mud|into the pond|on {h.p} nose].", "But {h} looked at the crowd and not at the ground. Bump! {h.s} fell [into the mud|into a bush].")
    w("Everyone laughed. {h} felt {sad} and hid {h.p} face.", "{h} was wet and dirty, and {h.p} face was red.")
    w("Only {f} did not laugh. {f} gave {h.o} a hand. \"[Are you hurt|It can happen to anyone],\" said {f}.", "{f} helped {h.o} up. \"[You do not have to be the best|We like you as you are],\" said {f}.")
    w.para()
    w('"[I am sorry that I boasted|I talked too much]," {h} said. "[Can you teach me|I am not the best at all]."', "{h} looked at {f} and began to laugh too.")
    w("After that, {h} [listened more than {h.s} talked|said kind things about others|did not boast any more].", "From then on, {h} asked, \"And what can you do?\" And {h.s} heard many wonderful things.")
    end(w, "you do not have to be the best to be loved")


def fishing(w):
    w.place("pl", ("lake", "river", "pond", "harbor", "beach"))
    catch = w.pick(("an old boot", "a broken umbrella", "a rusty pot", "a big stick", "an old hat", "a bottle"))
    w.put(junk=catch)
    w.open()
    w("{when} {h} went fishing {pl.at} with {e}.", '{when} {e} said, "Let us go fishing!" They went {pl.to}.' if not w.first_person else "{when} I went fishing {pl.at} with {e}.")
    w("{h} [threw the line into|sat and looked at] the water. {h.s} waited. Nothing happened.", "The water was [quiet|calm]. {h} wanted to catch a big fish.")
    w('"[When will a fish come|Why is nothing happening]?" {h} asked. "[Wait|Be quiet and wait]," said {e}. "[Fish do not like noise|The lake has its own time]."')
    w.para()
    w("{h} waited and waited. Then something pulled! {h} pulled it out. It was {junk}.", "Suddenly the line moved. \"I have one!\" {h} cried. But it was only {junk}.")
    w("{h} was {sad}, but {e} laughed. \"[That is the best {jn} in the lake|At least it was not heavy].\"".replace("{jn}", catch.split(" ", 1)[1]), '"That is not a fish," said {f.first}, who had come to watch. They all laughed.' if not w.first_person else '"That is not a fish," said {f.first}, who had come to watch. We all laughed.')
    w("{h} tried again. {h.s} listened to the [wind|birds] and watched the [clouds|water].", "This time, {h} sat still. A dragonfly landed on {h.p} [hand|knee|nose].")
    w.para()
    w("Then the line moved again. It was a fish, silver and [small|shiny]! \"[Please let me go|I am too small],\" it said. {h} put it back into the water.", "At last, {h} caught a fish. It was so beautiful that {h.s} [let it go|gave it back to the water].")
    w('"[That was kind|You have a good heart]," said {e}.', "The fish [jumped once more|waved with its tail] and swam away.")
    w("They ate {food} and went home when the sun went down." if not w.first_person else "We ate {food} and went home when the sun went down.")
    end(w, "waiting can be the best part")


def first_day(w):
    w.extra("g", "child")
    new = w.pick(("school", "class", "town", "village", "team"))
    w.put(new=new)
    w.open()
    w("{when} was different. It was {h.ps} first day at a new {new}.".replace("{when}", "That day") if new in ("school",) else "{when} {h} came to a new {new}.")
    w("{h} did not know anyone. {h.p} stomach felt [funny|strange].", '"[What if no one likes me|I want to stay at home]," {h} said. "[Just be yourself|Everyone is new one day]," said {e}.')
    w("Everyone looked at {h.o}. Some whispered.", "There were so many faces. {h} looked at the floor.")
    w.para()
    w('Then {g} [came over|smiled]. "[Hi, I am {g}|Hello, my name is {g}]. [You can sit with me|Do you want to play with us|What do you like]?"', "{h} sat alone at lunch. Then {g} sat down. \"[You can have half of my apple|I like your smile],\" said {g}.")
    w('"I like {love2}," {h} said. "[Me too|I love that too]!" said {g}.'.replace("{love2}", "{love3}").replace("{love3}", w.pick(W._w("stories, music, animals, games, drawing, swimming, puzzles, the stars, jokes, books"))))
    w("{g} showed {h.o} everything: [the garden|the big tree], [the best place to play|the library] and [the place where the cat sleeps|a secret path].", "They played [ball|tag|hide and seek] and laughed a lot." if not w.first_person else "We played tag and laughed a lot.")
    w.para()
    w('At home, {e} asked, "How was your day?" "[It was great|I have a new friend]!" {h} said.')
    w("The next day, someone else was new. {h} went over and said hello.", "{h} was not [afraid|shy] any more.")
    end(w, "one friendly word can change a day")


def mystery(w):
    stolen = w.pick(("the cookies", "the blue socks", "the apples", "the spoons", "the red shoes", "the cheese", "the eggs", "the buttons", "the cake"))
    thief, trail = w.pick((("a crow", "black feathers"), ("a mouse", "tiny foot prints"), ("a squirrel", "bits of nut shell"), ("a puppy", "muddy foot prints"), ("a raccoon", "a line of crumbs"), ("a goat", "white hairs"), ("a duck", "wet foot prints")))
    reason = w.pick(("was hungry", "wanted to build a nest for its babies", "thought that they were a gift", "was lonely and wanted to be found", "only wanted to play"))
    w.put(stolen=stolen, thief=thief, th="the " + thief.split(" ")[1], trail=trail, reason=reason)
    w.open()
    w("{when} {stolen} were gone.".replace("were", "was" if stolen in ("the cheese", "the cake") else "were"), '{when} {e} asked, "Who took {stolen}?" No one knew.')
    w('"[I will find out|This is a mystery|I will be a detective]," {h} said.', "{h} took a [big glass|notebook] and began to look for clues.")
    w("First, {h} asked {f.first}. \"[It was not me|I did not take anything],\" said {f}. \"But I [heard a noise|saw a shadow] in the night.\"", "{h} asked everyone. No one had seen a thing.")
    w.para()
    w("Then {h} found {trail} on the floor. [A clue!|]", '"[Look|Aha]!" {h} said. "I see {trail}."')
    w("{h} followed them [out of the door|across the yard|through the grass] to [an old tree|the barn|a bush|the shed].", "The trail went [around the house|over the wall|along the path] and stopped at [an old tree|the barn|a bush].")
    w("There sat {thief}, and next to it were {stolen}!" if stolen not in ("the cheese", "the cake") else "There sat {thief}, and next to it was {stolen}!", "And there was {thief} with {stolen}.")
    w.para()
    w('"Why did you take them?" {h} asked. {th} looked down. It {reason}.' if stolen not in ("the cheese", "the cake") else '"Why did you take it?" {h} asked. {th} looked down. It {reason}.')
    w('"[You can ask next time|You only have to ask]," {h} said [kindly|softly]. "[We can share|I will help you]."', "{h} was not angry. {h.s} [gave it something to eat|promised to help].")
    w("Everyone said that {h} was [a great detective|very clever]." if not w.first_person else "Everyone said that I was a great detective.", "{th} said sorry and became a friend of the family.")
    end(w, "it is better to ask than to take")


def goodbye(w):
    w.free_thing("x", W._w("stone, shell, ribbon, bracelet, button, photo, feather, book, letter, toy horse, necklace, drum"))
    w.put(away=w.pick(("a big city", "another land", "the sea", "the mountains", "an island", "the other side of the world")))
    w.open()
    w("{hf} were best friends. {they} did everything together.", "{h} had a best friend, {f.first}. {they} [played|met] every day.")
    w('{when} {f} came with sad eyes. "We are moving to {away}," said {f}.', '{when} {f} said, "I have to go away. My family is moving to {away}."')
    w("{h} [did not want to hear it|began to cry]. \"[Then I will have no friend|Please do not go],\" {h.s} said.", "{h} felt [a stone in {h.p} stomach|{sad}].")
    w.para()
    w('"[A friend far away is still a friend|You can write to each other|The same moon shines for both of you]," said {e}.', "{h} talked to {e}. {e} said, \"[Give {f.o} something to remember|Real friends do not end].\"")
    w("So {h} gave {f} {x.a}. \"[So you do not forget me|Look at it when you are sad],\" {h.s} said.", "{they} [cut|had] {x.a} and promised to think of each other.".replace("[cut|had]", "found"))
    w("On the last day, {they} [played one more time|sat under the old tree|watched the sun go down]. Then {f} went away and waved for a long time.")
    w.para()
    w("It was hard at first. But [after a week|soon], a letter came from {f}.", "The days were long. Then the postman brought a letter with {f.ps} name on it.")
    w("{they} wrote to each other every week. And in the summer, {f} came to visit.", "{h} wrote back the same day.")
    w("{h} also found a new friend. Now {h.s} had two." if w.rng.random() < 0.5 else "{h} smiled again.")
    end(w, "friends stay friends, even far apart")


def odd_one(w):
    odd = w.pick((("a blue nose", "in the fog everyone could see it"), ("very big ears", "they heard the water coming before anyone else"), ("one short leg", "on the steep hill it was just right"), ("a very loud voice", "everyone could hear it from far away"),
                  ("bright spots that shone in the dark", "they showed the way at night"), ("a long crooked tail", "it could pull a friend out of a hole"), ("a strange laugh", "it made the angry giant laugh too")))
    w.put(odd=odd[0], use=odd[1], trouble={"a blue nose": "a thick fog came", "very big ears": "there was a flood", "one short leg": "everyone had to cross the steep hill", "a very loud voice": "a child was lost in the forest",
          "bright spots that shone in the dark": "all the lamps went out", "a long crooked tail": "a friend fell into a deep hole", "a strange laugh": "an angry giant came to the village"}[odd[0]])
    w.open()
    w("{h} was different. {h.s} had {odd}.", "No one else had {odd}, only {h}.")
    w("The others [laughed at|pointed at] {h.o}. \"[You look funny|You are not like us],\" they said.", "{h} wanted to be like everyone else. {h.s} [hid|stayed alone].")
    w('"[Why am I so different|I want to be like the others]," {h} said. "[One day you will be glad about it|Different is not bad|It makes you special]," said {e}.')
    w.para()
    w("{when} {trouble}. Everyone was {scared}.", "{when} something bad happened. {trouble}.")
    w("No one knew what to do. But {h} had {odd}, and {use}.", '"I can help," {h} said. {h.s} had {odd}, and {use}.')
    w("And so {h} saved them all.", "In this way, everyone was saved.", "Soon everything was fine again, thanks to {h}.")
    w.para()
    w('"[We were wrong|We are sorry]," the others said. "[You are wonderful|We are glad that you are different]."', "From that day on, no one laughed at {h.o} any more. Some even wanted to have {odd} too.")
    w("{h} was [proud|happy] to be just as {h.s} was.", "{f.first} became {h.ps} best friend.")
    end(w, "what makes you different can make you strong")


def pet(w):
    kind = w.pick(W._w("kitten, puppy, bunny, hamster, turtle, duckling, parrot, goldfish, pony, lamb"))
    w.put(petk=kind, pname=w.pick(W.PET_NAMES))
    w.open()
    w("{h} wanted a {petk} more than anything.", 'Every day, {h} asked, "Can I have a {petk}?"')
    w('"[A {petk} is a lot of work|You must feed it every day|You have to be old enough]," said {e}.', '"Can you take care of it?" asked {e}. "[Yes, I promise|I will do everything]," {h} said.')
    w("So {h} [helped in the house for a week|took care of a plant first|fed the neighbor's cat for a month] to show that {h.s} could do it.", "")
    w.para()
    w("{when} {e} came home with a [box|basket]. Something [moved|made a noise] inside.", "{when} {h} found a {petk} [at the door|near the road|in the garden]. It had no home.")
    w("It was a [small|tiny|little] {petk}! \"[Is it for me|Can it stay]?\" {h} asked. \"Yes,\" said {e}.", "{h} looked at the {petk}, and the {petk} looked at {h.o}. It was love." )
    w('"I will call you {pname}," {h} said.', "{h} gave it a name. It was {pname}.")
    w.para()
    w("{pname} [slept in a box|had a little bed] next to {h.ps} bed. [In the first night, it cried, and {h} held it.|]", "{h} gave {pname} food and water every morning. [One day, {h.s} forgot, and {pname} was sad. After that, {h.s} never forgot.|]")
    w("{they4} played every day and [went for walks|slept in the sun].".replace("{they4}", "We" if w.first_person else "They"), "{pname} learned to [come when {h} called|do a little trick].")
    w("{f.first} came to see {pname}. \"[How sweet|It likes you],\" said {f}.", "")
    end(w, "love means taking care of someone")


PLOTS = [treasure, garden, sick_friend, wish, get_lost, snow_day, coin, quarrel, noise, helping, greedy, small_hero, stage,
         letter, teamwork, fallen_star, boasting, fishing, first_day, mystery, goodbye, odd_one, pet]
